import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { TonyError } from '../../platform/errors.ts';
import { explainKey } from '../explain-key.ts';
import type { Job, Role } from '../job.ts';
import type { JobInput } from '../job-schema.ts';
import { withFinalValues } from './final-values.ts';
import { loadJob, parseJob } from './load-job.ts';
import { checkedJob } from './resolved-job.ts';
import { parseSite, siteJsonSchema } from './site.ts';
import { tensorBoardRole } from './tensorboard-role.ts';

const JOB = 'name: j\ncommand: node train.ts\n';

function load(text: string, site: string, set: readonly string[] = []): { job: Job; messages: string[] } {
  const messages: string[] = [];
  const job = parseJob(text, {
    file: '/home/alice/job.yaml',
    folder: '/',
    set,
    site: parseSite(site || '{}', 'site.yaml'),
    onNote: (line) => messages.push(line),
  });
  return { job, messages };
}

function role(job: Job, name: string) {
  const found = job.roles.find((each) => each.name === name);
  if (found === undefined) {
    throw new Error(`no role ${name}`);
  }
  return found;
}

describe('defaults', () => {
  const site = `
defaults:
  queue: research
  runtime: hdfs:///apps/tony-ts/runtime.tar.gz
  env: {PROXY: http://proxy:3128, LEVEL: 2}
  heartbeat: {interval: 3s}
  checkpoint: {everySteps: 500}
  tensorboard: {resources: {memory: 3g}}
  timeout: 2d
  acls: {view: {groups: [operators]}}
  master: {resources: {memory: 2g}, nodeLabel: stable}
  tags: [ml]
  roles:
    '*': {resources: {memory: 8g}, restart: {maxRestarts: 7}, env: {A: every}}
    worker: {instances: 2, resources: {gpus: 1}, nodeLabel: a100, env: {LEVEL: 9}}
    ps: {resources: {memory: 16g}, env: {LEVEL: 1, OWN: ps}}
`;

  test('fill in what job.yaml omits, at any depth', () => {
    const { job, messages } = load(
      `${JOB}heartbeat: {missed: 4}\nacls: {view: {users: [bob]}}\nroles: {worker: {}, evaluator: {}}\n`,
      site,
    );
    expect(job).toMatchObject({
      queue: 'research',
      runtime: 'hdfs:///apps/tony-ts/runtime.tar.gz',
      env: { PROXY: 'http://proxy:3128', LEVEL: '2' },
      heartbeat: { intervalMs: 3000, missed: 4 },
      checkpoint: { everySteps: 500, keep: 3 },
      tensorboard: { serve: false },
      timeoutMs: 172_800_000,
      acls: { view: { users: ['bob'], groups: ['operators'] } },
      master: { resources: { memoryMb: 2048, vcores: 1 }, nodeLabel: 'stable' },
      tags: ['ml'],
    });
    expect(job.roles.map(({ name }) => name)).toEqual(['worker', 'evaluator']);
    expect(role(job, 'worker')).toMatchObject({
      instances: 2,
      resources: { memoryMb: 8192, gpus: 1 },
      restart: { policy: 'on-failure', maxRestarts: 7 },
      nodeLabel: 'a100',
      env: { A: 'every', LEVEL: '9' },
    });
    expect(role(job, 'evaluator')).toMatchObject({ instances: 1, resources: { memoryMb: 8192, gpus: 0 }, nodeLabel: null });
    expect(messages).toEqual([]);
  });

  test('never override job.yaml or --set', () => {
    const text = `${JOB}queue: mine\nenv: {LEVEL: 5}\nruntime: system\nroles: {worker: {instances: {min: 1, max: 3}, resources: {memory: 1g}, restart: {maxRestarts: 0}}}\n`;
    const { job } = load(text, site, ['heartbeat.interval=1s', 'roles.worker.nodeLabel=t4']);
    expect(job).toMatchObject({ queue: 'mine', runtime: 'system', heartbeat: { intervalMs: 1000 }, env: { LEVEL: '5' } });
    expect(role(job, 'worker')).toMatchObject({
      instances: 1,
      maxInstances: 3,
      resources: { memoryMb: 1024, gpus: 1 },
      restart: { maxRestarts: 0 },
      nodeLabel: 't4',
      env: { A: 'every' },
    });
  });

  test.each([
    ['true', 3072],
    ['{logdir: hdfs:///logs}', 3072],
    ['{resources: {memory: 1g}}', 1024],
  ])("set the memory of the job's TensorBoard (%s)", (tensorboard, memoryMb) => {
    expect(load(`${JOB}tensorboard: ${tensorboard}\nroles: {worker: {}}\n`, site).job.tensorboard).toMatchObject({
      serve: true,
      resources: { memoryMb },
    });
  });

  test('set wire.security whatever the strategy is', () => {
    const text = `${JOB}strategy: parameter-server\nroles: {worker: {}}\n`;
    expect(load(text, 'defaults: {wire: {security: authenticated}}').job.wire).toEqual({ dtype: 'float32', security: 'authenticated' });
    const written = `${JOB}wire: {dtype: float16, security: none}\nroles: {worker: {}}\n`;
    expect(load(written, 'defaults: {wire: {security: authenticated}}').job.wire.security).toBe('none');
    const { job, messages } = load(written, 'final: {wire: {security: encrypted}}');
    expect(job.wire).toEqual({ dtype: 'float16', security: 'encrypted' });
    expect(messages).toEqual(['the site file sets wire.security to encrypted (job.yaml: none)']);
  });

  test('cannot require a wire.security that the framework does not support', () => {
    const text = 'name: a\nframework: pytorch\ncommand: x\nroles: {worker: {}}\n';
    expect(() => load(text, 'defaults: {wire: {security: encrypted}}')).toThrow('cannot protect those between PyTorch programs');
    expect(() => load(text, 'final: {wire: {security: encrypted}}')).toThrow(
      /requires wire\.security encrypted: .* cannot protect those between PyTorch programs/,
    );
    const { job } = load(text, 'final: {wire: {security: none}}');
    expect(() => checkedJob({ ...job, wire: { ...job.wire, security: 'encrypted' } })).toThrow('wire.security');
  });

  test('set the keytab and its principal together', () => {
    const keytabs = 'defaults: {kerberos: {keytab: /etc/keytabs/team.keytab, principal: team@EXAMPLE.COM}}';
    const keytabOf = (own: string) => load(`${JOB}roles: {worker: {}}\n${own}`, keytabs).job.kerberos;
    expect(keytabOf('')).toEqual({ keytab: '/etc/keytabs/team.keytab', principal: 'team@EXAMPLE.COM' });
    expect(keytabOf('kerberos: {keytab: mine}\n')).toEqual({ keytab: '/mine', principal: null });
    expect(keytabOf('kerberos: null\n')).toBeNull();
  });

  test('apply to a role that the strategy adds', () => {
    const { job } = load(`${JOB}strategy: parameter-server\nenv: {LEVEL: 5}\nroles: {worker: {resources: {memory: 4g}}}\n`, site);
    expect(role(job, 'worker').resources.memoryMb).toBe(4096);
    expect(role(job, 'ps')).toMatchObject({ instances: 1, resources: { memoryMb: 16_384 }, servesParameters: true });
    expect({ ...job.env, ...role(job, 'ps').env }).toMatchObject({ LEVEL: '5', OWN: 'ps' });
  });

  test.each<[string, string, { nodeLabel: string | null; other: object }]>([
    ['of every role', '', { nodeLabel: 'cpu', other: { 'yarn.io/fpga': 1 } }],
    [
      'of every role, unless its own entry sets them',
      ', ps: {nodeLabel: fast, resources: {yarn.io/npu: 2}}',
      { nodeLabel: 'fast', other: { 'yarn.io/fpga': 1, 'yarn.io/npu': 2 } },
    ],
  ])('%s apply to a role that the strategy adds; it is otherwise like the chief, without GPUs', (_, named, { nodeLabel, other }) => {
    const every = "'*': {instances: 3, nodeLabel: cpu, resources: {memory: 9g, gpus: 1, yarn.io/fpga: 1}}";
    const { job } = load(
      `${JOB}strategy: parameter-server\nroles: {worker: {resources: {memory: 4g}}}\n`,
      `defaults: {roles: {${every}${named}}}`,
    );
    expect(role(job, 'worker')).toMatchObject({ instances: 3, nodeLabel: 'cpu', resources: { gpus: 1, other: { 'yarn.io/fpga': 1 } } });
    expect(role(job, 'ps')).toMatchObject({ instances: 1, nodeLabel, resources: { memoryMb: 4096, gpus: 0, other } });
  });

  test('keep the positions of mistakes in job.yaml', () => {
    const mistakes = (text: string, of: string): string => {
      try {
        load(text, of);
      } catch (error) {
        if (error instanceof TonyError && error.code === 'JOB_INVALID') {
          return error.message;
        }
        throw error;
      }
      throw new Error('there is no mistake');
    };
    expect(mistakes(`${JOB}env: 3\nheartbeat:\nroles: {worker: 1}\n`, site).split('\n')).toEqual([
      'The job file has 3 mistakes:',
      '  /home/alice/job.yaml:3:6  env: expected a mapping, found `3`',
      '  /home/alice/job.yaml:4:11  heartbeat: expected a mapping, found nothing',
      '  /home/alice/job.yaml:5:17  roles.worker: expected a mapping, found `1`',
    ]);
    expect(mistakes(`${JOB}roles: {worker: {kind: service}}\n`, site)).toContain('/home/alice/job.yaml:3:1  roles: at least one role');
    expect(mistakes('command: node train.ts\nroles: {worker: {}}\n', site)).toContain('/home/alice/job.yaml:1:1  name: is missing');
  });
});

describe('final values', () => {
  const site = `
final:
  queue: research
  env: {PROXY: http://proxy:3128}
  heartbeat: {interval: 3s}
  timeout: 1d
  tensorboard: {resources: {memory: 2g}}
  acls: {view: {groups: [operators]}}
  master: {resources: {memory: 2g}}
  roles:
    '*': {restart: {policy: never}, resources: {memory: 4g, yarn.io/fpga: 0}}
    worker: {instances: 2, resources: {gpus: 1}, env: {LEVEL: 1}}
`;

  test('override job.yaml and --set, and report each change', () => {
    const text = `${JOB}queue: mine
env: {PROXY: none, OWN: x}
heartbeat: {interval: 1s}
acls: {view: {users: [bob], groups: [staff]}}
roles:
  worker: {instances: {min: 1, max: 4}, resources: {memory: 1536m, gpus: 8}, env: {PROXY: mine, LEVEL: 3}}
  evaluator: {restart: {policy: on-failure}}
`;
    const { job, messages } = load(text, site, ['timeout=90s', 'roles.worker.resources.vcores=2']);
    expect(job).toMatchObject({
      queue: 'research',
      env: { PROXY: 'http://proxy:3128', OWN: 'x' },
      heartbeat: { intervalMs: 3000, missed: 10 },
      timeoutMs: 86_400_000,
      tensorboard: { serve: false, resources: { memoryMb: 2048 } },
      acls: { view: { users: ['bob'], groups: ['operators'] } },
      master: { resources: { memoryMb: 2048 } },
    });
    expect(role(job, 'worker')).toMatchObject({
      instances: 2,
      maxInstances: 2,
      resources: { memoryMb: 4096, vcores: 2, gpus: 1, other: {} },
      restart: { policy: 'never', maxRestarts: 3 },
      env: { PROXY: 'http://proxy:3128', LEVEL: '1' },
    });
    expect(role(job, 'evaluator')).toMatchObject({ instances: 1, resources: { memoryMb: 4096 }, restart: { policy: 'never' } });
    expect(messages).toEqual([
      'the site file sets queue to research (job.yaml: mine)',
      'the site file sets env.PROXY to http://proxy:3128 (job.yaml: none)',
      'the site file sets heartbeat.interval to 3s (job.yaml: 1s)',
      'the site file sets timeout to 1d (--set: 90s)',
      'the site file sets acls.view.groups to [operators] (job.yaml: [staff])',
      'the site file sets roles.worker.instances to 2 (job.yaml: {min: 1, max: 4})',
      'the site file sets roles.worker.resources.memory to 4g (job.yaml: 1536m)',
      'the site file sets roles.worker.resources.gpus to 1 (job.yaml: 8)',
      'the site file sets roles.worker.env.PROXY to http://proxy:3128 (job.yaml: mine)',
      'the site file sets roles.worker.env.LEVEL to 1 (job.yaml: 3)',
      'the site file sets roles.evaluator.restart.policy to never (job.yaml: on-failure)',
    ]);
  });

  test('override defaults without a report', () => {
    const { job, messages } = load(`${JOB}roles: {worker: {}}\n`, `defaults: {heartbeat: {interval: 2s}}\n${site}`);
    expect(job.heartbeat.intervalMs).toBe(3000);
    expect(messages).toEqual([]);
  });

  test('apply to a role that the strategy adds, but not to the added role of TensorBoard', () => {
    const parameterServers = 'final: {roles: {ps: {instances: 3}}}';
    const { job } = load(`${JOB}strategy: parameter-server\nroles: {worker: {}}\n`, parameterServers);
    expect(role(job, 'ps').instances).toBe(3);
    const { job: settled } = load(`${JOB}tensorboard: true\nroles: {worker: {}}\n`, site);
    const brought = tensorBoardRole({ memoryMb: 2048, vcores: 1 });
    const { final } = parseSite(site, 'x');
    const changed = (own: Role) => withFinalValues({ ...settled, roles: [...settled.roles, own] }, final).changed;
    expect(changed(brought)).toEqual([]);
    expect(changed(JSON.parse(JSON.stringify(brought)))).toEqual([]);
  });

  test('apply to a role named tensorboard in job.yaml that resembles the added one but runs another command', () => {
    const { job } = load(
      `${JOB}tensorboard: true\nroles: {worker: {}, tensorboard: {kind: sidecar, command: mine, resources: {memory: 1g}, env: {A: mine}}}\n`,
      "final: {env: {A: b}, roles: {'*': {nodeLabel: cpu, env: {C: d}}}}",
    );
    expect(role(job, 'tensorboard')).toMatchObject({ nodeLabel: 'cpu', env: { A: 'b', C: 'd' } });
  });
});

test('loadJob with a site file reports a missing job file', async () => {
  await expect(loadJob('/nowhere/job.yaml', { site: parseSite('{}', 'x') })).rejects.toMatchObject({ code: 'JOB_UNREADABLE' });
});

describe('every key of a site file', () => {
  const leaves = (section: string, key: string): string[] => {
    const { children = [] } = explainKey(siteJsonSchema(), key === '' ? section : `${section}.${key}`) ?? {};
    if (children.length === 0 || key.endsWith('.docker')) {
      return [key];
    }
    return children.flatMap(({ key: child }) => leaves(section, key === '' ? child : `${key}.${child}`));
  };
  /** Values that differ from the defaults. */
  const VALUES: Readonly<Record<string, unknown>> = {
    queue: 'q',
    runtime: 'system',
    'env.NAME': 'v',
    'roles.NAME.instances': 3,
    'roles.NAME.resources.memory': '3g',
    'roles.NAME.resources.vcores': 3,
    'roles.NAME.resources.gpus': 3,
    'roles.NAME.resources.NAME': 3,
    'roles.NAME.env.NAME': 'v',
    'roles.NAME.nodeLabel': 'l',
    'roles.NAME.docker': { image: 'i', mounts: ['/a:/b:ro'], network: 'host' },
    'roles.NAME.restart.policy': 'never',
    'roles.NAME.restart.maxRestarts': 9,
    'restart.maxRestarts': 9,
    'gang.timeout': '77s',
    'heartbeat.interval': '7s',
    'heartbeat.missed': 7,
    'checkpoint.everySteps': 7,
    'checkpoint.every': '7m',
    'checkpoint.keep': 7,
    'tensorboard.resources.memory': '7g',
    'tensorboard.resources.vcores': 7,
    'wire.security': 'encrypted',
    timeout: '7h',
    'acls.view.users': ['u'],
    'acls.view.groups': ['g'],
    'acls.modify.users': ['u'],
    'acls.modify.groups': ['g'],
    remoteAccess: false,
    'master.resources.memory': '7g',
    'master.resources.vcores': 7,
    'master.nodeLabel': 'l',
    'master.docker': { image: 'i' },
    'master.env.NAME': 'v',
    'master.logLevel': 'debug',
    'master.failureWindow': '7h',
    'master.startTimeout': '7h',
    priority: 7,
    tags: ['t'],
  };
  const document = (key: string): Record<string, unknown> =>
    key
      .replace('roles.NAME', 'roles.worker')
      .split('.')
      .reduceRight<unknown>((below, part) => ({ [part]: below }), VALUES[key]) as Record<string, unknown>;

  test('has a value in this test', () => {
    const keytab = ['kerberos.keytab', 'kerberos.principal'];
    expect(leaves('defaults', '').sort()).toEqual([...Object.keys(VALUES), ...keytab].sort());
    expect(leaves('final', '').sort()).toEqual(Object.keys(VALUES).sort());
  });

  test.each(Object.keys(VALUES))('%s has the same effect as a default, as a final value and in job.yaml', (key) => {
    const plain = { name: 'j', command: 'c', tensorboard: true, roles: { worker: {} } };
    const part = document(key);
    const expected = parseJob(stringify({ ...plain, ...part }), { file: 'job.yaml', folder: '/' });
    expect(expected).not.toEqual(parseJob(stringify(plain), { file: 'job.yaml', folder: '/' }));
    expect(load(stringify(plain), stringify({ defaults: part })).job).toEqual(expected);
    const { job, messages } = load(stringify(plain), stringify({ final: part }));
    expect(job).toEqual(expected);
    expect(messages).toEqual([]);
    expect(withFinalValues(job, parseSite(stringify({ final: part }), 'x').final)).toEqual({ job, changed: [] });
  });
});

describe('for any job and site file', () => {
  const amounts = fc.integer({ min: 1, max: 64 });
  const variables = fc.dictionary(fc.constantFrom('A', 'B', 'C'), fc.constantFrom('1', '2'), { maxKeys: 2 });
  const rolePart = fc.record(
    {
      instances: fc.integer({ min: 1, max: 9 }),
      resources: fc.record({ memory: amounts.map((gib) => `${gib}g`), vcores: amounts, gpus: amounts }, { requiredKeys: [] }),
      env: variables,
      nodeLabel: fc.constantFrom('a100', 't4'),
      docker: fc.constantFrom(null, { image: 'a' }, { image: 'b', mounts: ['/x:/y'] }),
      restart: fc.record({ policy: fc.constantFrom('never', 'on-failure'), maxRestarts: amounts }, { requiredKeys: [] }),
    },
    { requiredKeys: [] },
  );
  const part = (roles: fc.Arbitrary<unknown>) =>
    fc.record(
      {
        queue: fc.constantFrom('q', 'r'),
        env: variables,
        heartbeat: fc.record(
          { interval: amounts.map((s) => `${Math.min(s, 60)}s`), missed: amounts.map((n) => n + 2) },
          { requiredKeys: [] },
        ),
        checkpoint: fc.record({ everySteps: amounts, every: amounts.map((minutes) => `${minutes}m`), keep: amounts }, { requiredKeys: [] }),
        acls: fc.record({ view: fc.record({ users: fc.constantFrom(['u'], ['v', 'w'], []) }, { requiredKeys: [] }) }, { requiredKeys: [] }),
        timeout: amounts.map((minutes) => `${minutes}m`),
        master: fc.record(
          { resources: fc.record({ memory: amounts.map((gib) => `${gib}g`), vcores: amounts }, { requiredKeys: [] }) },
          { requiredKeys: [] },
        ),
        roles,
      },
      { requiredKeys: [] },
    );
  const siteRoles = fc.record({ '*': rolePart, worker: rolePart, evaluator: rolePart, other: rolePart }, { requiredKeys: [] });
  const jobs = part(fc.record({ worker: rolePart, evaluator: rolePart }, { requiredKeys: ['worker'] })).map(
    (written) => ({ name: 'j', command: 'c', roles: { worker: {} }, ...(written as object) }) as JobInput,
  );
  const PLAIN = parseSite('{}', 'x');

  test("defaults keep the job's values, and final values apply in the end", () => {
    fc.assert(
      fc.property(jobs, part(siteRoles), part(siteRoles), (written, defaults, final) => {
        const text = stringify(written);
        const site = parseSite(stringify({ defaults, final }), 'site.yaml');
        const own = parseJob(text, { file: 'job.yaml', folder: '/', site: PLAIN });
        const filled = parseJob(text, { file: 'job.yaml', folder: '/', site: { ...site, final: {} } });
        const { name: _, command: __, ...values } = written;
        const asFinal = parseSite(stringify({ final: values }), 'x').final;
        expect(withFinalValues(filled, asFinal).changed).toEqual([]);
        expect(filled.roles.map(({ name }) => name)).toEqual(own.roles.map(({ name }) => name));
        const messages: string[] = [];
        const settled = parseJob(text, { file: 'job.yaml', folder: '/', site, onNote: (line) => messages.push(line) });
        expect(withFinalValues(settled, site.final)).toEqual({ job: settled, changed: [] });
        // Of `checkpoint.everySteps` and `checkpoint.every`, a job may set only one.
        const { changed } = withFinalValues(settled, asFinal);
        const lost = changed.filter(({ is }) => is !== 'nothing').map(({ path }) => path.join('.'));
        for (const path of lost) {
          expect(messages.some((line) => line.startsWith(`the site file sets ${path} to `))).toBe(true);
        }
        expect(new Set(messages).size).toBe(messages.length);
        expect(messages.length).toBeGreaterThanOrEqual(lost.length);
      }),
      { numRuns: 150 },
    );
  });
});
