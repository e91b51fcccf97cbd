import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { parseJob } from '../../../conf/resolve/load-job.ts';
import { parseSite } from '../../../conf/resolve/site.ts';
import { parseHadoopXml } from '../../../hadoop/configuration/hadoop-xml.ts';
import { type CapacityQueue, capacitySchedulerSchema } from '../../../hadoop/yarn/capacity-queues.ts';
import { currentProperties } from './current-properties.ts';
import { MASTER } from './maximum-capacity.ts';
import { schedulerConfiguration } from './scheduler-configuration.ts';
import { PREFIX, type SchedulerView, usualQueueMode } from './scheduler-draft.ts';
import { schedulerXml } from './scheduler-xml.ts';
import { largestTask } from './task-size.ts';

/**
 * Report of a Hadoop 3.4 ResourceManager. The root queue has the queues default (40 %, maximum 60 %) and research (60 %). The queue
 * research has the queues a (33.3 %, open to all) and b (66.7 %, open to alice and the group research). The cluster has two nodes with 8
 * GiB, 8 cores and 4 GPUs each. One node has the label a100, which default (30 %), a and b (35 % each) can access.
 */
const ROOT: CapacityQueue = await (async () => {
  const root = capacitySchedulerSchema.parse(
    JSON.parse(await readFile(new URL('../../../hadoop/golden/capacity-scheduler.json', import.meta.url), 'utf8')),
  );
  if (root === null) {
    throw new Error('no root');
  }
  return root;
})();
const GROUPS: Readonly<Record<string, readonly string[]>> = { alice: ['research'], bob: ['research', 'students'] };

function quotas(text: string) {
  return parseSite(`quotas:\n${text.trim().replace(/^/gm, '  ')}`, 'tony-site.yaml').quotas;
}

function emitted(text: string, more: Partial<SchedulerView> = {}, base: ReadonlyMap<string, string> | null = null) {
  const view: SchedulerView = {
    quotas: quotas(text),
    root: ROOT,
    hadoopVersion: '3.4.3',
    queueMode: 'absolute',
    missingNodes: [],
    allowMissingNodes: false,
    masters: 2,
    groupsOf: (user) => GROUPS[user] ?? [],
    aclsEnabled: true,
    ...more,
  };
  return schedulerConfiguration(view, base);
}

/** Returns the changes to the current configuration: `name=value`, or `-name` for removed properties. */
function changes(text: string, more: Partial<SchedulerView> = {}, base: ReadonlyMap<string, string> | null = null): string[] {
  const before = base ?? currentProperties(ROOT);
  const { properties } = emitted(text, more, base);
  const after = new Map(properties.map(({ name, value }) => [name, value]));
  const short = (name: string): string => name.slice(PREFIX.length);
  return [
    ...[...after].filter(([name, value]) => before.get(name) !== value).map(([name, value]) => `${short(name)}=${value}`),
    ...[...before.keys()].filter((name) => !after.has(name)).map((name) => `-${short(name)}`),
  ].sort();
}

test("without quotas of queues, the configuration is the ResourceManager's current one", () => {
  expect(changes('roles: {worker: {total: {gpus: 4}}}')).toEqual([]);
  expect([...currentProperties(ROOT)].map(([name, value]) => `${name.slice(PREFIX.length)}=${value}`)).toEqual([
    'resource-calculator=org.apache.hadoop.yarn.util.resource.DominantResourceCalculator',
    'root.queues=default,research',
    'root.accessible-node-labels.a100.capacity=100',
    'root.acl_submit_applications= ',
    'root.acl_administer_queue=root',
    'root.default.capacity=40',
    'root.default.maximum-capacity=60',
    'root.default.accessible-node-labels.a100.capacity=30',
    'root.default.acl_submit_applications=*',
    'root.default.maximum-am-resource-percent=0.5',
    'root.research.queues=a,b',
    'root.research.capacity=60',
    'root.research.accessible-node-labels.a100.capacity=70',
    'root.research.a.capacity=33.3',
    'root.research.a.accessible-node-labels.a100.capacity=50',
    'root.research.a.acl_submit_applications=*',
    'root.research.a.user-limit-factor=2',
    'root.research.a.maximum-am-resource-percent=0.5',
    'root.research.b.capacity=66.7',
    'root.research.b.accessible-node-labels.a100.capacity=50',
    'root.research.b.acl_submit_applications=alice research',
    'root.research.b.default-node-label-expression=a100',
    'root.research.b.maximum-am-resource-percent=0.5',
    'root.research.b.ordering-policy=fair',
    'root.research.b.maximum-application-lifetime=3600',
    'root.research.b.default-application-lifetime=3600',
  ]);
});

test('a total converts every capacity to an amount, leaves room for ApplicationMasters, and respects the parent queue', () => {
  expect(changes('queues: {a: {total: {gpus: 1, memory: 2g}}, default: {total: {vcores: 100}}}')).toEqual([
    'root.default.accessible-node-labels.a100.capacity=[memory=2457,vcores=2,yarn.io/gpu=1]',
    'root.default.accessible-node-labels.a100.maximum-capacity=[memory=8192,vcores=8,yarn.io/gpu=4]',
    'root.default.capacity=[memory=3276,vcores=3,yarn.io/gpu=1]',
    'root.default.maximum-applications=4000',
    'root.default.maximum-capacity=[memory=4915,vcores=8,yarn.io/gpu=2]',
    'root.research.a.accessible-node-labels.a100.capacity=[memory=2867,vcores=2,yarn.io/gpu=1]',
    'root.research.a.accessible-node-labels.a100.maximum-capacity=[memory=4096,vcores=8,yarn.io/gpu=1]',
    'root.research.a.capacity=[memory=1636,vcores=1,yarn.io/gpu=0]',
    'root.research.a.maximum-applications=3500',
    'root.research.a.maximum-capacity=[memory=4096,vcores=8,yarn.io/gpu=1]',
    'root.research.accessible-node-labels.a100.capacity=[memory=5734,vcores=5,yarn.io/gpu=2]',
    'root.research.b.accessible-node-labels.a100.capacity=[memory=2867,vcores=2,yarn.io/gpu=1]',
    'root.research.b.capacity=[memory=3278,vcores=3,yarn.io/gpu=1]',
    'root.research.b.maximum-applications=4002',
    'root.research.capacity=[memory=4915,vcores=4,yarn.io/gpu=2]',
  ]);
});

test('rejects totals while nodes are missing, unless missing nodes are allowed', () => {
  const missing = { missingNodes: ['node1:8041 (LOST)', 'node2:8041 (DECOMMISSIONING)'] };
  const total = 'queues: {a: {total: {gpus: 1}}}';
  for (const queueMode of ['absolute', 'mixed'] as const) {
    expect(() => emitted(total, { ...missing, queueMode })).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining('node1:8041 (LOST), node2:8041 (DECOMMISSIONING)') }),
    );
  }
  expect(emitted(total, { ...missing, allowMissingNodes: true }).notices).toContain(
    'The queue sizes do not include the resources of node1:8041 (LOST), node2:8041 (DECOMMISSIONING). Generate the file again when the nodes are back.',
  );
  // Only sizes depend on nodes.
  expect(changes('queues: {b: {timeout: 90s}}', missing)).toHaveLength(2);
});

test('queues with amounts accept applications before any node has registered', () => {
  const root = (maximumApplications: number | null): CapacityQueue => ({
    ...ROOT,
    children: ROOT.children.map((child) => ({ ...child, maximumApplications })),
  });
  const set = (view: Partial<SchedulerView>, base: ReadonlyMap<string, string> | null = null) =>
    emitted('queues: {default: {total: {gpus: 1}}}', view, base)
      .properties.filter(({ name }) => name === `${PREFIX}root.default.maximum-applications`)
      .map(({ value }) => value);
  expect(set({ root: root(4000) })).toEqual(['4000']);
  for (const unknown of [null, 0]) {
    expect(Number(set({ root: root(unknown) })[0])).toBeGreaterThan(0);
  }
  const base = new Map([...currentProperties(ROOT), [`${PREFIX}root.default.maximum-applications`, '7'] as const]);
  expect(set({}, base)).toEqual(['7']);
  // A percentage is valid for any number of nodes.
  expect(set({ root: root(4000), queueMode: 'mixed' })).toEqual([]);
});

test('mixed mode is the default for Hadoop 3.4 and newer', () => {
  expect(['3.4.0', '3.10.0-SNAPSHOT', '4.0.0'].map(usualQueueMode)).toEqual(['mixed', 'mixed', 'mixed']);
  expect(['3.3.6', '3.0.0'].map(usualQueueMode)).toEqual(['absolute', 'absolute']);
});

test('in mixed mode, only the maximum of the limited resource changes; other resources keep their percentage', () => {
  expect(changes('queues: {default: {total: {gpus: 1}}}', { queueMode: 'mixed' })).toEqual([
    'legacy-queue-mode.enabled=false',
    'root.default.accessible-node-labels.a100.maximum-capacity=[memory=100%,vcores=100%,yarn.io/gpu=1]',
    'root.default.maximum-capacity=[memory=60%,vcores=60%,yarn.io/gpu=1]',
  ]);
  const base = new Map([...currentProperties(ROOT), [`${PREFIX}legacy-queue-mode.enabled`, 'false'] as const]);
  expect(changes('queues: {a: {total: {gpus: 1}}}', {}, base)).toEqual([
    'root.research.a.accessible-node-labels.a100.maximum-capacity=[memory=100%,vcores=100%,yarn.io/gpu=1]',
    'root.research.a.maximum-capacity=[memory=100%,vcores=100%,yarn.io/gpu=1]',
  ]);
});

test('"*" applies to each queue that is not listed; the guaranteed capacity never exceeds the maximum', () => {
  const { properties, notices } = emitted('queues: {a: {timeout: 1h}, "*": {total: {gpus: 0}}}');
  const maxima = properties
    .filter(({ name, value }) => name.endsWith('.maximum-capacity') && value.includes('gpu=0'))
    .map(({ name }) => name.slice(PREFIX.length));
  expect(maxima.filter((name) => !name.includes('labels')).sort()).toEqual([
    'root.default.maximum-capacity',
    'root.research.b.maximum-capacity',
  ]);
  expect(notices).toContain(
    'The guaranteed capacity of root.default exceeded quotas.queues.*.total for gpus and is reduced to that limit. The excess is not guaranteed to any queue.',
  );
});

test('when a queue loses a node label, its sibling queues receive the share, so that percentages still add up to 100', () => {
  expect(changes('queues: {default: {nodeLabels: []}}')).toEqual([
    '-root.default.accessible-node-labels.a100.capacity',
    'root.default.accessible-node-labels= ',
    'root.research.accessible-node-labels.a100.capacity=100',
  ]);
  expect(changes('queues: {a: {nodeLabels: []}, b: {nodeLabels: []}}')).toEqual([
    '-root.research.a.accessible-node-labels.a100.capacity',
    '-root.research.b.accessible-node-labels.a100.capacity',
    '-root.research.b.default-node-label-expression',
    'root.research.a.accessible-node-labels= ',
    'root.research.allow-zero-capacity-sum=true',
    'root.research.b.accessible-node-labels= ',
  ]);
  const [first, ...others] = ROOT.children;
  if (first === undefined) {
    throw new Error('no queue');
  }
  const none: CapacityQueue = { ...ROOT, children: [{ ...first, labels: [] }, ...others] };
  expect(currentProperties(none).get(`${PREFIX}root.default.accessible-node-labels`)).toBe(' ');
  expect(changes('queues: {default: {nodeLabels: [a100]}}', { root: none }, currentProperties(none))).toEqual([
    'root.default.accessible-node-labels=a100',
  ]);
  expect(emitted('queues: {a: {nodeLabels: [a100, v100]}}').notices).toContain(
    'quotas.queues.a.nodeLabels: root.research.a has no capacity on nodes labelled v100. Set root.research.a.accessible-node-labels.v100.capacity.',
  );
});

test('the maximum of a queue on nodes with a label rises with its capacity there', () => {
  const key = 'root.research.accessible-node-labels.a100';
  const changed = (most: string) =>
    changes('queues: {default: {nodeLabels: []}}', {}, new Map([...currentProperties(ROOT), [`${PREFIX}${key}.maximum-capacity`, most]]));
  expect(changed('80.0')).toEqual([
    '-root.default.accessible-node-labels.a100.capacity',
    'root.default.accessible-node-labels= ',
    `${key}.capacity=100`,
    `${key}.maximum-capacity=100`,
  ]);
  for (const enough of ['100', '-1', '[memory=100%,vcores=100%,yarn.io/gpu=1]']) {
    expect(changed(enough)).not.toContainEqual(expect.stringContaining('maximum'));
  }
  const base = new Map([...currentProperties(ROOT), [`${PREFIX}${key}.maximum-capacity`, '80'] as const]);
  expect(emitted('queues: {default: {nodeLabels: []}}', {}, base).notices).toContain(
    'The maximum of root.research on nodes labelled a100 rises from 80 % to 100 %, because sibling queues lose access to these nodes.',
  );
});

test('the largest container fits the largest task of any role, and an ApplicationMaster', () => {
  const text = `
roles: {worker: {task: {memory: 4g, gpus: 2}}, ps: {task: {memory: 6g, gpus: 0}}, '*': {instances: 0}}
queues: {a: {task: {memory: 512m}}}`;
  expect(changes(text)).toEqual([
    'root.default.maximum-allocation=memory-mb=6144,vcores=8,yarn.io/gpu=2',
    'root.research.a.maximum-allocation=memory-mb=1024,vcores=8,yarn.io/gpu=2',
    'root.research.b.maximum-allocation=memory-mb=6144,vcores=8,yarn.io/gpu=2',
  ]);
  // Tasks of a role without a limit may have any size.
  expect(changes('roles: {worker: {task: {memory: 4g}}}')).toEqual([]);
  expect(largestTask(quotas('roles: {"*": {task: {gpus: 1}}}\nqueues: {a: {roles: {ps: {task: {gpus: 0, memory: 1g}}}}}'), 'a')).toEqual({
    gpus: 1,
  });
});

test("a queue's timeout applies to all of its applications, including applications without a timeout", () => {
  expect(changes('queues: {b: {timeout: 90s}}')).toEqual([
    'root.research.b.default-application-lifetime=90',
    'root.research.b.maximum-application-lifetime=90',
  ]);
});

test('queue quotas of users and groups become access lists', () => {
  const text = `
users: {alice: {queues: [a]}, eve: {timeout: 1h}, '*': {queues: [default]}}
groups: {research: {queues: [a, b]}, students: {queues: [default]}}`;
  expect(changes(text)).toEqual([
    'root.research.a.acl_submit_applications=alice,eve research',
    'root.research.b.acl_submit_applications=eve research',
  ]);
  const { notices } = emitted(text);
  expect(notices).toContain('YARN cannot exclude alice from root.research.b, because one of their groups may use it.');
});

test('a notice reports that YARN cannot exclude a user from a queue that all others may use', () => {
  const text = 'users: {mallory: {queues: [a]}}\ngroups: {students: {queues: [default]}}';
  expect(changes(text)).toEqual(['root.research.b.acl_submit_applications=*']);
  expect(emitted(text).notices).toContain(
    'YARN cannot exclude mallory and students from root.research.b, because everyone else may use it. To exclude them, set quotas.users."*".queues to a list without b.',
  );
});

test('notices report that everyone can administer root, and that the ResourceManager does not enforce access lists', () => {
  const open = new Map(currentProperties(ROOT));
  open.delete(`${PREFIX}root.acl_administer_queue`);
  const text = 'users: {"*": {queues: [default]}}';
  expect(changes(text, {}, open)).toContain('root.acl_administer_queue= ');
  expect(emitted(text, { aclsEnabled: false }, open).notices).toEqual(
    expect.arrayContaining([
      'The ResourceManager does not enforce access lists yet: set yarn.acl.enable to true in yarn-site.xml.',
      expect.stringMatching(/^Everyone can currently administer root and therefore submit to it/),
    ]),
  );
});

test('notices name the quotas that YARN cannot enforce by their keys in the site file', () => {
  const { notices } = emitted(
    `
roles: {worker: {total: {gpus: 4}}}
users: {alice: {total: {gpus: 4}, job: {gpus: 2}, idle: 1h, timeout: 2h}}
groups: {research: {total: {gpus: 4}}}
queues: {a: {total: {instances: 3, yarn.io/fpga: 1}, instances: 2, roles: {ps: {instances: 1}}}, gone: {total: {gpus: 1}}}`,
    {},
    currentProperties(ROOT),
  );
  expect(notices).toEqual([
    'The file omits quotas.queues.a.total.yarn.io/fpga, because the cluster has no such resource type.',
    'quotas.queues.gone: the cluster has no queue gone that accepts applications. Create it, then generate the file again.',
    'YARN has no roles; in each queue, it enforces only the largest task limit of any role (maximum-allocation): quotas.roles.worker.total, quotas.queues.a.roles.ps.instances.',
    'YARN does not limit the resources of a single job: quotas.users.alice.job, quotas.queues.a.instances.',
    'YARN does not limit the number of containers in a queue: quotas.queues.a.total.',
    'YARN does not add up the resources of a user or group across queues: quotas.users.alice.total, quotas.groups.research.total.',
    'YARN has no such limit for users and groups: quotas.users.alice.timeout.',
    'YARN cannot detect whether a job is idle: quotas.users.alice.idle.',
  ]);
});

test('rejects a base file with other queues, and absolute amounts in a cluster with dynamic queues', () => {
  const other = new Map(currentProperties(ROOT)).set(`${PREFIX}root.queues`, 'default, research, new');
  expect(() => emitted('{}', {}, other)).toThrow(/queues below root differ \(new\)/);
  const [first, ...others] = ROOT.children;
  if (first === undefined) {
    throw new Error('no queue');
  }
  const making: CapacityQueue = { ...ROOT, children: [{ ...first, makesQueues: true }, ...others] };
  expect(() => emitted('queues: {a: {total: {gpus: 1}}}', { root: making })).toThrow(/creates queues below root\.default/);
  expect(emitted('queues: {a: {total: {gpus: 1}}}', { root: making, queueMode: 'mixed' }).notices).toContain(
    'YARN creates queues below root.default on first use. This file sets no limits for them.',
  );
});

test('without a base file, rejects a queue whose capacity differs by resource', () => {
  const [first, ...others] = ROOT.children;
  if (first === undefined) {
    throw new Error('no queue');
  }
  const root: CapacityQueue = { ...ROOT, children: [{ ...first, mode: 'differing' }, ...others] };
  const text = 'queues: {default: {timeout: 1h}}';
  expect(() => emitted(text, { root })).toThrow(/The size of root\.default differs by resource/);
  const base = new Map([...currentProperties(ROOT), [`${PREFIX}root.default.capacity`, '[memory=40%,vcores=60%]'] as const]);
  expect(changes(text, { root }, base)).toEqual(['root.default.maximum-application-lifetime=3600']);
});

test('rejects totals for a Hadoop version that would ignore GPUs or does not support mixed mode', () => {
  const total = 'queues: {a: {total: {memory: 1g}}}';
  expect(() => emitted(total, { hadoopVersion: '3.3.6' })).toThrow(
    /Hadoop 3\.3\.6 supports absolute sizes for memory and vcores only, so queues would have no gpus/,
  );
  expect(() => emitted(total, { hadoopVersion: '3.3.6', queueMode: 'mixed' })).toThrow(/does not support mixed mode/);
  expect(changes('queues: {b: {timeout: 90s}}', { hadoopVersion: '3.3.6' })).toHaveLength(2);
  expect(changes(total, { hadoopVersion: '3.10.0-SNAPSHOT' }).length).toBeGreaterThan(0);
});

test('leaves a name with a space out of access lists, and adds a notice', () => {
  const { properties, notices } = emitted('users: {"a b": {queues: [a]}, bob: {queues: [a]}, "*": {queues: []}}');
  expect(properties.find(({ name }) => name === `${PREFIX}root.research.a.acl_submit_applications`)?.value).toBe('bob ');
  expect(notices).toContain('The access lists omit "a b", because it contains a space, a comma or an asterisk.');
});

test.each([
  [
    'queues',
    'queues: {a: {total: {gpus: 1}, timeout: 2h, nodeLabels: []}}\nusers: {"*": {queues: [default]}}\ngroups: {"r&d": {queues: [a]}}',
  ],
  ['roles', 'roles: {worker: {task: {gpus: 1}}, "*": {task: {gpus: 0}}}'],
])('writes the recorded file %s', async (name, text) => {
  const xml = schedulerXml(emitted(text), ['first -- and only --- line <of> it -']);
  await expect(xml).toMatchFileSnapshot(`golden/${name}.xml`);
  const read = new Map(parseHadoopXml(xml, 'x').map((property) => [property.name, property.value]));
  for (const property of emitted(text).properties) {
    expect(read.get(property.name)).toBe(property.value.trim());
  }
});

test('escapes or replaces characters that are invalid in XML', () => {
  const xml = schedulerXml(
    { properties: [{ name: 'a<b', value: ']]>&\u0000\ud800', why: 'a > & <b' }], notices: ['ends --> here\u0007-'] },
    [],
  );
  expect(parseHadoopXml(xml, 'x')).toMatchObject([{ name: 'a<b', value: ']]>&??' }]);
  expect(xml.match(/--/g)).toHaveLength(2);
});

test('the resources reserved for an ApplicationMaster equal the default of job.yaml', () => {
  const { master } = parseJob('name: j\ncommand: x\nroles: {worker: {}}', { file: 'job.yaml', folder: '/' });
  expect(MASTER).toEqual({ memory: master.memoryMb, vcores: master.vcores });
});
