import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { parseJob } from '../../../conf/load-job.ts';
import { parseSite } from '../../../conf/site.ts';
import { parseHadoopXml } from '../../../hadoop/configuration/hadoop-xml.ts';
import { type CapacityQueue, capacitySchedulerSchema } from '../../../hadoop/yarn/capacity-queues.ts';
import { currentProperties } from './current-properties.ts';
import { MASTER } from './maximum-capacity.ts';
import { schedulerConfiguration } from './scheduler-configuration.ts';
import { PREFIX, type SchedulerView, usualQueueMode } from './scheduler-draft.ts';
import { schedulerXml } from './scheduler-xml.ts';
import { largestTask } from './task-size.ts';

/**
 * From a ResourceManager of Hadoop 3.4: root has the queues default (40 %, maximum 60 %) and research (60 %); research has a (33.3 %, open
 * to all) and b (66.7 %, alice and the group research). Of two nodes with 8 GiB, 8 cores and 4 GPUs each, one is labelled a100; default has
 * 30 % of it, a and b 35 % each.
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

/** The changes from the current configuration: `name=value`, and `-name` for removed properties. */
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
    'Sizes of queues are those of the cluster without node1:8041 (LOST), node2:8041 (DECOMMISSIONING): write the file anew when the nodes are back.',
  );
  // Limits other than sizes do not depend on nodes.
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
  // A percentage is a valid share at any time.
  expect(set({ root: root(4000), queueMode: 'mixed' })).toEqual([]);
});

test('mixed mode is the default for Hadoop versions that support it', () => {
  expect(['3.4.0', '3.10.0-SNAPSHOT', '4.0.0'].map(usualQueueMode)).toEqual(['mixed', 'mixed', 'mixed']);
  expect(['3.3.6', '3.0.0'].map(usualQueueMode)).toEqual(['absolute', 'absolute']);
});

test('in mixed mode, only the maximum of the queue changes, and other resources keep their share', () => {
  expect(changes('queues: {default: {total: {gpus: 1}}}', { queueMode: 'mixed' })).toEqual([
    'legacy-queue-mode.enabled=false',
    'root.default.accessible-node-labels.a100.maximum-capacity=[memory=100%,vcores=100%,yarn.io/gpu=1]',
    'root.default.maximum-capacity=[memory=60%,vcores=60%,yarn.io/gpu=1]',
  ]);
  // A cluster already in mixed mode stays in it.
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
  expect(notices).toContain('root.default was guaranteed more gpus than quotas.queues.*.total allows; the rest is guaranteed to no queue.');
});

test('node labels that a queue gives up go to its sibling queues, so that percentages still add up', () => {
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
  // Restores a label that an earlier generated file removed.
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
    'quotas.queues.a.nodeLabels: root.research.a has no capacity of the nodes labelled v100; set root.research.a.accessible-node-labels.v100.capacity.',
  );
});

test('the maximum of a queue rises with its capacity of a label', () => {
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
    'root.research could have at most 80 % of the nodes labelled a100; its maximum is 100 % now, since queues beside it gave them up.',
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
  // A role without a limit may request any amount.
  expect(changes('roles: {worker: {task: {memory: 4g}}}')).toEqual([]);
  expect(largestTask(quotas('roles: {"*": {task: {gpus: 1}}}\nqueues: {a: {roles: {ps: {task: {gpus: 0, memory: 1g}}}}}'), 'a')).toEqual({
    gpus: 1,
  });
});

test("a queue's timeout applies to all of its applications, including those that set none", () => {
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
  expect(notices).toContain('YARN does not keep alice out of root.research.b: a group of theirs may use it.');
});

test('a user is not excluded from a queue that all others may use, and a notice says so', () => {
  const text = 'users: {mallory: {queues: [a]}}\ngroups: {students: {queues: [default]}}';
  expect(changes(text)).toEqual(['root.research.b.acl_submit_applications=*']);
  expect(emitted(text).notices).toContain(
    'YARN does not keep mallory, students out of root.research.b, since everybody else may use it: give quotas.users."*" queues without b.',
  );
});

test('a notice reports that access lists have no effect when everybody administers root, or when they are off', () => {
  const open = new Map(currentProperties(ROOT));
  open.delete(`${PREFIX}root.acl_administer_queue`);
  const text = 'users: {"*": {queues: [default]}}';
  expect(changes(text, {}, open)).toContain('root.acl_administer_queue= ');
  expect(emitted(text, { aclsEnabled: false }, open).notices).toEqual(
    expect.arrayContaining([
      'Access lists do not hold yet: set yarn.acl.enable to true in yarn-site.xml.',
      expect.stringMatching(/^Everybody could administer root, and with that submit to it/),
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
    'quotas.queues.a.total.yarn.io/fpga is left out: the cluster has no such resource type.',
    'quotas.queues.gone: there is no queue gone to submit to; make it, and write the file anew.',
    'YARN knows no roles; of their task only the largest of a queue holds, as its maximum-allocation: quotas.roles.worker.total, quotas.queues.a.roles.ps.instances.',
    'YARN does not limit what one job has: quotas.users.alice.job, quotas.queues.a.instances.',
    'YARN does not count the containers of a queue: quotas.queues.a.total.',
    'YARN does not sum up what a user or a group has in several queues: quotas.users.alice.total, quotas.groups.research.total.',
    'YARN has no such limit of users and groups: quotas.users.alice.timeout.',
    'YARN does not see whether a job is idle: quotas.users.alice.idle.',
  ]);
});

test('rejects a base file with other queues, and amounts beside queues that create queues', () => {
  const other = new Map(currentProperties(ROOT)).set(`${PREFIX}root.queues`, 'default, research, new');
  expect(() => emitted('{}', {}, other)).toThrow(/queues below root differ \(new\)/);
  const [first, ...others] = ROOT.children;
  if (first === undefined) {
    throw new Error('no queue');
  }
  const making: CapacityQueue = { ...ROOT, children: [{ ...first, makesQueues: true }, ...others] };
  expect(() => emitted('queues: {a: {total: {gpus: 1}}}', { root: making })).toThrow(/root\.default makes queues/);
  expect(emitted('queues: {a: {total: {gpus: 1}}}', { root: making, queueMode: 'mixed' }).notices).toContain(
    'root.default makes queues when they are first used; these are not limited here.',
  );
});

test('rejects capacities that differ by resource, unless a base file states them', () => {
  const [first, ...others] = ROOT.children;
  if (first === undefined) {
    throw new Error('no queue');
  }
  const root: CapacityQueue = { ...ROOT, children: [{ ...first, mode: 'differing' }, ...others] };
  const text = 'queues: {default: {timeout: 1h}}';
  expect(() => emitted(text, { root })).toThrow(/does not tell the size of root\.default, which differs by resource/);
  const base = new Map([...currentProperties(ROOT), [`${PREFIX}root.default.capacity`, '[memory=40%,vcores=60%]'] as const]);
  expect(changes(text, { root }, base)).toEqual(['root.default.maximum-application-lifetime=3600']);
});

test('rejects totals for a Hadoop version that would drop GPUs or lacks the mode', () => {
  const total = 'queues: {a: {total: {memory: 1g}}}';
  expect(() => emitted(total, { hadoopVersion: '3.3.6' })).toThrow(
    /Hadoop 3\.3\.6 takes amounts of memory and vcores only, and queues would have no gpus/,
  );
  expect(() => emitted(total, { hadoopVersion: '3.3.6', queueMode: 'mixed' })).toThrow(/knows no mixed mode/);
  expect(changes('queues: {b: {timeout: 90s}}', { hadoopVersion: '3.3.6' })).toHaveLength(2);
  expect(changes(total, { hadoopVersion: '3.10.0-SNAPSHOT' }).length).toBeGreaterThan(0);
});

test('excludes a name with a space from access lists', () => {
  const { properties, notices } = emitted('users: {"a b": {queues: [a]}, bob: {queues: [a]}, "*": {queues: []}}');
  expect(properties.find(({ name }) => name === `${PREFIX}root.research.a.acl_submit_applications`)?.value).toBe('bob ');
  expect(notices).toContain('"a b" cannot stand in an access list of YARN.');
});

test.each([
  [
    'queues',
    'queues: {a: {total: {gpus: 1}, timeout: 2h, nodeLabels: []}}\nusers: {"*": {queues: [default]}}\ngroups: {"r&d": {queues: [a]}}',
  ],
  ['roles', 'roles: {worker: {task: {gpus: 1}}, "*": {task: {gpus: 0}}}'],
])('writes the expected file: %s', async (name, text) => {
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

test('the room for an ApplicationMaster equals the default size of one', () => {
  const { master } = parseJob('name: j\ncommand: x\nroles: {worker: {}}', { file: 'job.yaml', folder: '/' });
  expect(MASTER).toEqual({ memory: master.memoryMb, vcores: master.vcores });
});
