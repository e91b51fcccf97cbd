import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import type { QueueRoom } from '../../hadoop/yarn/queue-room.ts';
import { terminalOf } from '../terminal/terminal.ts';
import type { JobPlan } from './job-plan.ts';
import { localPlan, planOf } from './make-plan.ts';
import { planLines, requestLines } from './plan-lines.ts';

const PLAIN = terminalOf({ isTTY: false });

const job = parseJob(
  `name: mnist
queue: gpu
command: node train.ts --a-long-option with-a-value --another-option with-another-value --and more
tensorboard: true
roles:
  worker: {instances: {min: 2, max: 4}, resources: {memory: 2g, gpus: 1}}
  evaluator: {kind: independent, resources: {memory: 512m, yarn.io/fpga: 1}, nodeLabel: fast}
`,
  { file: 'job.yaml', folder: '/nowhere' },
);
const queue: QueueRoom = {
  path: 'root.research.gpu',
  state: 'RUNNING',
  defaultLabel: '',
  runningApplications: 1,
  reservedContainers: 0,
  countsAll: true,
  memoryStep: 1024,
  reaches: ['*'],
  labels: {
    '': {
      levels: [{ path: 'root.research.gpu', maximum: { memory: 16384, vcores: 16, gpus: 8 }, used: { memory: 8192, vcores: 4, gpus: 7 } }],
      user: null,
      masters: null,
    },
    fast: { levels: [], user: null, masters: null },
  },
};
const parts = [
  { name: 'source', bytes: 12_345, missing: 12_345 },
  { name: 'tony', bytes: 1_500_000, missing: 0 },
  { name: 'mnist', bytes: 11_000_000, missing: 1_000_000 },
  { name: 'elsewhere', bytes: 0, missing: 0 },
];
const node = { usable: true, labels: [], total: { memory: 65536, vcores: 32, gpus: 8 }, free: { memory: 8192, vcores: 8, gpus: 1 } };
const plan = planOf(
  job,
  {
    user: 'alice',
    largest: { memory: 65536, vcores: 32, gpus: 8, 'yarn.io/fpga': 2 },
    nodes: [
      { ...node, host: 'a' },
      { ...node, host: 'b', labels: ['fast'], total: { ...node.total, 'yarn.io/fpga': 2 }, free: { ...node.free, 'yarn.io/fpga': 1 } },
    ],
    queue,
    maySubmit: true,
    shortages: [],
    over: 'wait',
  },
  parts,
  ['Cannot determine how much of the quota totals is in use: The ResourceManager rejected the request (HTTP 403): no.'],
);

test('prints a plan in 80 columns', () => {
  const lines = planLines(plan, PLAIN);
  expect(lines).toEqual([
    'role           tasks         memory  vcores  gpus  yarn.io/fpga  fit now  label',
    'ApplicationM…      1          1 GiB       1                            1',
    'worker          2..4          2 GiB       1     1                      1',
    'evaluator          1        512 MiB       1                   1        1  fast',
    'tensorboard        1          1 GiB       1                            1',
    'all             5..7  6.5..10.5 GiB    5..7  2..4             1',
    'queue root.research.gpu has left: 8 GiB of 16 GiB memory, 12 of 16 vcores, 1 of',
    '8 gpus',
    'upload: 1.0 MB (source 12.3 kB, mnist 1.0 MB); already on HDFS: tony 1.5 MB,',
    'mnist 10.0 MB',
    'The ResourceManager allocates memory in multiples of 1 GiB: evaluator gets 1',
    'GiB.',
    'Cannot determine how much of the quota totals is in use: The ResourceManager',
    'rejected the request (HTTP 403): no.',
    'waits because queue root.research.gpu has 1 gpu left of 8 gpus, but the job',
    'requests 2 gpus',
  ]);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(80);
});

test('plans the stages of a job separately: the containers of roles that run one after another are not added', () => {
  const staged = parseJob(
    `name: staged
framework: none
command: ./run.sh
roles:
  prepare: {kind: independent, instances: 3, resources: {memory: 2g}}
  worker: {instances: 2, resources: {memory: 3g}, after: {role: prepare}}
`,
    { file: 'job.yaml', folder: '/nowhere' },
  );
  const levels = [{ path: 'root.gpu', maximum: { memory: 8192, vcores: 8 }, used: {} }];
  const room = {
    largest: { memory: 8192, vcores: 8 },
    nodes: [{ ...node, host: 'a' }],
    maySubmit: true,
    shortages: [],
    over: 'wait',
  } as const;
  const small = { ...queue, labels: { '': { levels, user: null, masters: null } } };
  const { total, verdict, notes } = planOf(staged, { ...room, user: 'alice', queue: small }, [], []);
  expect(verdict).toEqual({ type: 'fits' });
  expect(total).toEqual({
    containers: { min: 4, max: 4 },
    resources: { memory: { min: 7168, max: 7168 }, vcores: { min: 4, max: 4 } },
  });
  expect(notes).toEqual([
    "Some roles run one after another. The row `all` shows the job's peak, which counts against quotas. In total, the job uses up to 6 containers.",
  ]);
  const full = {
    ...small,
    labels: { '': { levels: [{ path: 'root.gpu', maximum: { memory: 6144, vcores: 8 }, used: {} }], user: null, masters: null } },
  };
  const { verdict: never } = planOf(staged, { ...room, user: 'alice', queue: full }, [], []);
  const reason = (role: string, count: number): string =>
    'The job requests 7 GiB of memory at the same time, including its ApplicationMaster, but queue root.gpu can provide at most ' +
    `6 GiB of memory. Lower roles.${role}.instances (${count}) or roles.${role}.resources.memory, or choose a larger queue.`;
  expect(never).toEqual({ type: 'impossible', reasons: [reason('worker', 2), reason('prepare', 3)] });
});

test('prints each verdict with its reasons', () => {
  const last = (verdict: JobPlan['verdict']) => planLines({ ...plan, notes: [], uploads: [], verdict }, PLAIN).slice(8);
  expect(last({ type: 'fits' })).toEqual(['upload: nothing', 'fits']);
  expect(last({ type: 'unknown' })).toEqual(['upload: nothing', 'unknown whether the job fits']);
  expect(last({ type: 'waits', reasons: ['no node is active', 'all ApplicationMasters have reached their limit'] }).slice(1)).toEqual([
    'waits because',
    '  no node is active',
    '  all ApplicationMasters have reached their limit',
  ]);
  expect(last({ type: 'rejected', reasons: ['quotas.total.gpus is 4 gpus'] })[1]).toBe('rejected because quotas.total.gpus is 4 gpus');
  const never = 'Each task of role worker requests 9 gpus. Lower roles.worker.resources.gpus.';
  expect(
    last({ type: 'impossible', reasons: [never] })
      .slice(1)
      .join(' '),
  ).toBe('impossible because each task of role worker requests 9 gpus. Lower roles.worker.resources.gpus');
});

test('prints a plan for this machine', () => {
  const lines = planLines(localPlan(job, 'alice', parts.slice(0, 2), ['Left out of the source: .env.']), PLAIN);
  expect(lines).toEqual([
    'would start on this machine:',
    '     1 ApplicationMaster',
    '  2..4 worker             ranks 0-1  node train.ts --a-long-option with-a-valu…',
    '     1 evaluator                     node train.ts --a-long-option with-a-valu…',
    '     1 tensorboard',
    'copy: 12.3 kB (source 12.3 kB); already copied: tony 1.5 MB',
    'Left out of the source: .env.',
  ]);
});

test('prints the request to the ResourceManager', () => {
  expect(requestLines({ method: 'POST', url: 'http://rm:8088/ws/v1/cluster/apps', body: { queue: 'gpu' } })).toEqual([
    'POST http://rm:8088/ws/v1/cluster/apps',
    '{',
    '  "queue": "gpu"',
    '}',
  ]);
});
