import { readFile, writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { authorityFileOf, DEFAULT_SITE, keytabOf, parseKeepingSite, parseSite, siteJsonSchema, storageOfSite } from './site.ts';

const EXAMPLE = new URL('../tony-site.yaml', import.meta.url);
const SCHEMA = new URL('../site.schema.json', import.meta.url);
const DAY_MS = 86_400_000;
const NO_QUOTAS = { over: 'wait', roles: {}, users: {}, groups: {}, queues: {} };

function mistakes(text: string): string {
  try {
    parseSite(text, 'tony-site.yaml');
  } catch (error) {
    if (error instanceof TonyError && error.code === 'SITE_INVALID') {
      return error.message;
    }
    throw error;
  }
  throw new Error('there is no mistake');
}

test.each(['{}', '# nothing\n', '---\n', 'history: {}\n'])('%j gives the defaults', (text) => {
  expect({ ...parseSite(text, 'x'), from: null }).toEqual(DEFAULT_SITE);
  expect(DEFAULT_SITE).toEqual({
    from: null,
    history: { dir: null, url: null, keepMs: 90 * DAY_MS },
    cache: { maxAgeMs: null },
    tls: { ca: null },
    storage: { gateway: null, credentials: null },
    kerberos: null,
    quotas: NO_QUOTAS,
    defaults: {},
    final: {},
    unknownKeys: [],
  });
});

test('parseSite reads the settings of the history', () => {
  const site = parseSite('history:\n  dir: hdfs:///tony/history\n  url: https://history:8443/tony/\n  keep: 7d\n', 'x');
  expect(site).toEqual({
    from: 'x',
    history: { dir: 'hdfs:///tony/history', url: 'https://history:8443/tony', keepMs: 7 * DAY_MS },
    cache: { maxAgeMs: null },
    tls: { ca: null },
    storage: { gateway: null, credentials: null },
    kerberos: null,
    quotas: NO_QUOTAS,
    defaults: {},
    final: {},
    unknownKeys: [],
  });
});

test('a keytab requires a principal and a file', () => {
  expect(keytabOf('kerberos: {principal: trainer/_HOST@X, keytab: a.keytab}\n', 'x')).toEqual({
    principal: 'trainer/_HOST@X',
    keytab: 'a.keytab',
  });
  expect(keytabOf('quota: {}\n', 'x')).toBeNull();
  for (const value of ['{principal: a}', '{keytab: a}', '{principal: -c, keytab: a}', '{principal: "a b", keytab: a}', 'a']) {
    expect(() => keytabOf(`kerberos: ${value}\n`, 'x')).toThrow(expect.objectContaining({ code: 'SITE_INVALID' }));
  }
});

test('finds tls.ca in a site file that contains mistakes', () => {
  expect(parseSite('tls: {ca: ca.pem}\n', 'x').tls).toEqual({ ca: 'ca.pem' });
  expect(authorityFileOf('histroy: {}\ntls:\n  ca: /etc/ca.pem\n')).toBe('/etc/ca.pem');
  expect(['', 'quotas: {}\n', 'tls: {}\n', 'tls: 1\n', 'tls: {ca: [}\n', 'tls:\n'].map(authorityFileOf)).toEqual(Array(6).fill(null));
});

test('finds storage.gateway in a site file that contains mistakes', () => {
  expect(parseSite('storage: {gateway: "https://knox:8443/gateway/default"}\n', 'x').storage).toEqual({
    gateway: 'https://knox:8443/gateway/default',
    credentials: null,
  });
  expect(storageOfSite('histroy: {}\nstorage:\n  gateway: {ns1: http://h:1, "nn:8020": http://h:2}\n  credentials: ~/knox\n')).toEqual({
    gateway: { ns1: 'http://h:1', 'nn:8020': 'http://h:2' },
    credentials: '~/knox',
  });
  expect(['', 'storage: 1\n', 'storage: {gateway: h}\n', 'storage: {gateway: [}\n'].map(storageOfSite)).toEqual(Array(4).fill(null));
});

describe('unknown keys', () => {
  test('are ignored and reported, because a newer version of tony-ts may have written the file', () => {
    const text = [
      'apiVersion: tony-ts/v1',
      'x-limits: &limits {gpus: 8}',
      'history: {keep: 30d, archive: /old}',
      'notices: {}',
      'defaults: {checkpoint: {keep: 5, upload: fast}}',
      'quotas: {users: {alice: {job: *limits}}}',
    ].join('\n');
    const site = parseSite(text, 'site.yaml');
    expect(site).toMatchObject({ history: { keepMs: 30 * DAY_MS }, quotas: { users: { alice: { job: { gpus: 8 } } } } });
    expect(site.defaults).toEqual({ checkpoint: { keep: 5 } });
    expect(site.unknownKeys).toEqual([
      'site.yaml:3:22  history.archive: is not a known key (known: dir, url, keep)',
      'site.yaml:5:34  defaults.checkpoint.upload: is not a known key (known: everySteps, every, keep)',
      'site.yaml:4:1  notices: is not a known key (known: apiVersion, history, cache, tls, storage, kerberos, quotas, defaults, final)',
    ]);
  });

  test.each(['quotas: {notices: 1}', 'final: {notices: 1}', 'quota: {}', 'finals: {}', 'defaults: {name: a}'])(
    '%s is a mistake, because a limit would not apply or the key has no effect',
    (text) => {
      expect(mistakes(text)).toMatch(/is not a known key|can be set in job\.yaml only/);
    },
  );
});

test.each([
  ['tony-ts/v2', 'this file requires a tony-ts that reads tony-ts/v2. tony-ts'],
  ['v1', 'expected tony-ts/v1'],
])('apiVersion %s is the only mistake in the error', (version, message) => {
  const text = mistakes(`quotas: {users: 1}\nnotices: 1\napiVersion: ${version}\n`);
  expect(text).toContain(`tony-site.yaml:3:13  apiVersion: ${message}`);
  expect(text).toContain('has a mistake:');
});

test('reports all mistakes at once, each with its position', () => {
  const text =
    'history:\n  dirr: /x\n  dir: s3://bucket/x\n  url: ftp://x\n  keep: 90\nquota: 1\nquotas: {rols: {}, users: {alice: {task: {gpus: many}}}}\n';
  expect(mistakes(text).split('\n')).toEqual([
    'The site file has 7 mistakes:',
    '  tony-site.yaml:2:3  history.dirr: is not a known key; did you mean `dir`? (known: dir, url, keep)',
    '  tony-site.yaml:3:8  history.dir: expected a folder on HDFS, such as hdfs:///tony/history, without . and .., found `s3://bucket/x`',
    '  tony-site.yaml:4:8  history.url: expected the address of the history server, such as https://history.example.com:8443, without user, query or #',
    '  tony-site.yaml:5:9  history.keep: expected a duration such as 500ms, 30s, 10m or 1h30m, found `90`',
    '  tony-site.yaml:6:1  quota: is not a known key; did you mean `quotas`? (known: apiVersion, history, cache, tls, storage, kerberos, quotas, defaults, final)',
    '  tony-site.yaml:7:10  quotas.rols: is not a known key; did you mean `roles`? (known: over, roles, users, groups, queues)',
    '  tony-site.yaml:7:49  quotas.users.alice.task.gpus: expected a whole number, found `many`',
  ]);
});

test.each([
  ['- a\n', 'expected a mapping with the keys history, cache, tls, storage, kerberos, quotas, defaults and final, found a list'],
  ['history: {dir: /}\n', 'expected a folder on HDFS'],
  ['history: {dir: hdfs://nn/a/../b}\n', 'without . and ..'],
  ['history: {dir: /h, url: "http://user:word@h/"}\n', 'without user'],
  ['history: {url: "http://h:1"}\n', 'set history.dir too'],
  ['history: {keep: 1s}\n', 'must be at least 1 min'],
  ['storage: {gateway: knox}\n', 'expected an address such as https://host:port, without user'],
  ['storage: {gateway: {ns1: "https://user:word@h"}}\n', 'expected an address such as https://host:port, without user'],
  ['history: {dir: [\n', 'tony-site.yaml:2:1'],
  ['defaults: *x\n', 'tony-site.yaml:1:11  Unresolved alias'],
  ['*x\n', 'tony-site.yaml:1:1  '],
])('rejects %j', (text, expected) => {
  expect(mistakes(text)).toContain(expected);
});

test('the example file sets nothing, and its commented settings are valid', async () => {
  const text = await readFile(EXAMPLE, 'utf8');
  expect({ ...parseSite(text, 'x'), from: null }).toEqual(DEFAULT_SITE);
  const shown = parseSite(text.replace(/^(\s*)#(?=[a-zA-Z]+:|'\*':)/gm, '$1'), 'x');
  expect(shown.history).toEqual({ dir: 'hdfs:///tony/history', url: 'http://history.example.com:18080', keepMs: 90 * DAY_MS });
  expect(shown.quotas).toEqual({
    over: 'wait',
    roles: {
      worker: { instances: 8, task: { memory: 65_536, gpus: 2 }, total: { gpus: 8 } },
      ps: { instances: 4, task: { memory: 16_384 } },
    },
    users: { alice: { job: { gpus: 8 }, queues: ['default', 'research'] } },
    groups: { research: { total: { gpus: 16 }, timeout: 7 * DAY_MS, idle: 3_600_000 } },
    queues: { research: { nodeLabels: ['a100'], roles: { worker: { total: { gpus: 4 } } } } },
  });
  expect(shown.defaults).toEqual({
    queue: 'research',
    runtime: 'hdfs:///apps/tony-ts/runtime.tar.gz',
    env: { HTTPS_PROXY: 'http://proxy.example.com:3128' },
    checkpoint: { everySteps: 500 },
    roles: { '*': { resources: { memory: '4g' } }, worker: { resources: { gpus: 1 }, nodeLabel: 'a100' } },
  });
  expect(shown.final).toEqual({
    heartbeat: { interval: 3000 },
    wire: { security: 'encrypted' },
    remoteAccess: false,
    acls: { view: { groups: ['operators'] } },
    roles: { '*': { restart: { maxRestarts: 5 } } },
  });
});

test('rejects job settings that a site file must not contain, each with its position', () => {
  const text = `defaults:
  name: x
  heartbeat: {interval: 1}
  checkpoint: {dir: /x, evry: 1}
  roles:
    '*': {command: x, kind: gang, resources: {memory: lots, gpu: 1}}
    Worker: {}
final:
  source: .
  strategy: {type: all-reduce}
  runtimee: x
  tags: ['tony-roles:x']
  roles: {worker: {instances: {min: 1, max: 2}}}
`;
  expect(mistakes(text).split('\n')).toEqual([
    'The site file has 14 mistakes:',
    '  tony-site.yaml:2:3  defaults.name: can be set in job.yaml only, not in a site file',
    '  tony-site.yaml:3:25  defaults.heartbeat.interval: expected a duration such as 500ms, 30s, 10m or 1h30m, found `1`',
    '  tony-site.yaml:4:16  defaults.checkpoint.dir: can be set in job.yaml only, not in a site file',
    '  tony-site.yaml:4:25  defaults.checkpoint.evry: is not a known key; did you mean `every`? (known: everySteps, every, keep)',
    '  tony-site.yaml:6:11  defaults.roles.*.command: can be set in job.yaml only, not in a site file',
    '  tony-site.yaml:6:23  defaults.roles.*.kind: can be set in job.yaml only, not in a site file',
    '  tony-site.yaml:6:55  defaults.roles.*.resources.memory: expected a size such as 512m or 4g, found `lots`',
    '  tony-site.yaml:6:61  defaults.roles.*.resources.gpu: is not a resource type; did you mean `gpus`?',
    '  tony-site.yaml:7:5  defaults.roles.Worker: `Worker` is not a valid role name (lower-case letters, digits and -), and is not *',
    '  tony-site.yaml:9:3  final.source: can be set in job.yaml only, not in a site file',
    '  tony-site.yaml:10:3  final.strategy: can be set in job.yaml only, not in a site file',
    '  tony-site.yaml:11:3  final.runtimee: is not a known key; did you mean `runtime`? (known: queue, runtime, env, roles, restart, gang, heartbeat, checkpoint, tensorboard, wire, timeout, acls, remoteAccess, master, priority, tags)',
    '  tony-site.yaml:12:10  final.tags.0: begins with a prefix that tony-ts reserves for its own tags: choose another tag',
    '  tony-site.yaml:13:31  final.roles.worker.instances: expected a whole number, found a mapping',
  ]);
  expect(mistakes("defaults: {roles: {'*': {resources: {gpu: 1}}}}\nfinal: 3\n")).toContain(
    'tony-site.yaml:2:8  final: expected a mapping, found `3`',
  );
  expect(mistakes("defaults: {roles: {'*': {resources: {gpu: 1}}}}\n")).toContain(
    'tony-site.yaml:1:38  defaults.roles.*.resources.gpu: is not a resource type; did you mean `gpus`?',
  );
});

test('rejects limits under invalid names', () => {
  const text = `
quotas:
  roles: {Worker: {instances: 1}}
  users:
    '*': {queues: [root.research]}
  groups: {'*': {instances: 1}}
  queues: {root.research: {instances: 1}}
`;
  expect(mistakes(text).split('\n').slice(1)).toEqual([
    '  tony-site.yaml:3:11  quotas.roles.Worker: `Worker` is not a valid role name (lower-case letters, digits and -), and is not *',
    '  tony-site.yaml:5:20  quotas.users.*.queues.0: is not a queue name: write the last part of its path',
    '  tony-site.yaml:6:12  quotas.groups.*: `*` is not a group name: only roles, users and queues can have an entry *',
    '  tony-site.yaml:7:12  quotas.queues.root.research: `root.research` is not a queue name: write the last part of its path',
  ]);
  const amounts = `
quotas:
  roles: {worker: {task: {gpu: 1}, total: {instances: 3, gpus: 3}}}
  users: {'*': {job: {gpsu: 3, instances: 2}, roles: {ps: {total: {mem: 3}}}}}
  queues: {gpu: {total: {yarn.io/gpu: 3, yarn.io/fpga: 2}}}
`;
  expect(mistakes(amounts).split('\n').slice(1)).toEqual([
    '  tony-site.yaml:3:27  quotas.roles.worker.task.gpu: is not a resource type; did you mean `gpus`?',
    '  tony-site.yaml:4:23  quotas.users.*.job.gpsu: is not a resource type; did you mean `gpus`?',
    '  tony-site.yaml:4:32  quotas.users.*.job.instances: is not a resource type: write `instances` next to `resources`, not within it',
    '  tony-site.yaml:4:68  quotas.users.*.roles.ps.total.mem: is not a resource type; did you mean `memory`?',
    '  tony-site.yaml:5:26  quotas.queues.gpu.total.yarn.io/gpu: is not a resource type; did you mean `gpus`?',
  ]);
});

test('reports misspelt resource types together with invalid values', () => {
  const text = `
quotas:
  roles: {worker: {task: {gpus: x, gpu: 2, memroy: 1m}}, task: {instances: 3}}
  users: {task: {job: {instances: 2}}}
defaults: {roles: {'*': {resources: {vcore: 1}}}}
final: {roles: {worker: {resources: {mem: 1g}}}, timeout: 99999999999d}
`;
  expect(mistakes(text).split('\n').slice(1)).toEqual([
    '  tony-site.yaml:3:33  quotas.roles.worker.task.gpus: expected a whole number, found `x`',
    '  tony-site.yaml:3:36  quotas.roles.worker.task.gpu: is not a resource type; did you mean `gpus`?',
    '  tony-site.yaml:3:44  quotas.roles.worker.task.memroy: is not a resource type; did you mean `memory`?',
    '  tony-site.yaml:4:24  quotas.users.task.job.instances: is not a resource type: write `instances` next to `resources`, not within it',
    '  tony-site.yaml:5:38  defaults.roles.*.resources.vcore: is not a resource type; did you mean `vcores`?',
    '  tony-site.yaml:6:38  final.roles.worker.resources.mem: is not a resource type; did you mean `memory`?',
    '  tony-site.yaml:6:59  final.timeout: must be at most 36500 d',
  ]);
});

test('site.schema.json equals the generated schema (UPDATE=1 rewrites it)', async () => {
  const wanted = `${JSON.stringify(siteJsonSchema(), null, 2)}\n`;
  if (process.env.UPDATE === '1') {
    await writeFile(SCHEMA, wanted);
  }
  expect(JSON.parse(await readFile(SCHEMA, 'utf8'))).toEqual(JSON.parse(wanted));
});

test('the age limit of the cache is at least one day', () => {
  expect(parseSite('cache: {maxAge: 30d}', 'x').cache).toEqual({ maxAgeMs: 30 * DAY_MS });
  expect(() => parseSite('cache: {maxAge: 23h}', 'x')).toThrow('must be at least 24 h');
});

test.each(['', '\n', ' \n\t\n', '\uFEFF'])('a site file without any text is a mistake: %j', (text) => {
  expect(() => parseSite(text, 'site.yaml')).toThrow(/site\.yaml:1:1 {2}the file is empty: write `\{\}`/);
  expect(() => parseKeepingSite(text, 'site.yaml')).toThrow('the file is empty');
});

describe('the place of histories', () => {
  const limits = 'quotas: {users: {alice: {jbo: {gpus: 1}}}}';

  test('is known in spite of mistakes in other sections', () => {
    const { history, cache } = parseKeepingSite(`history: {dir: /tony/history, keep: 30d}\ncache: {maxAge: 7d}\n${limits}`, 'site.yaml');
    expect(history).toEqual({ dir: '/tony/history', url: null, keepMs: 30 * DAY_MS });
    expect(cache).toEqual({ maxAgeMs: 7 * DAY_MS });
    expect(parseKeepingSite(limits, 'site.yaml').history).toEqual(DEFAULT_SITE.history);
  });

  test.each([
    ['a mistake in its own section', `history: {keep: 5}\n${limits}`, /history\.keep[\s\S]*jbo/],
    ['a value of another type', `history: 5\n${limits}`, /history: expected a mapping/],
    ['text that is not YAML', 'history: {dir: /a\nquotas: [', /site\.yaml:/],
    ['a list', '- history', /expected a mapping/],
  ])('is unknown with %s, and the error lists all mistakes', (_, text, message) => {
    expect(() => parseKeepingSite(text, 'site.yaml')).toThrow(message);
  });
});
