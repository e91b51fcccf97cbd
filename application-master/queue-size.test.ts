import { expect, test } from 'vitest';
import { frozen, role, workers } from '../conf/job.fixture.ts';
import type { Role } from '../conf/job.ts';
import type { QueueRoom } from '../hadoop/yarn/queue-room.ts';
import { excessOverQueue } from './gatekeeper.ts';

const MAXIMUM = { memory: 16_384, vcores: 16 };

function queue(maximum = MAXIMUM, label = ''): QueueRoom {
  const room = { levels: [{ path: 'root.a', maximum, used: {} }], user: null, masters: null };
  const empty = { levels: [{ path: 'root.a', maximum: { memory: 0, vcores: 0 }, used: {} }], user: null, masters: null };
  return {
    path: 'root.a',
    state: 'RUNNING',
    defaultLabel: '',
    runningApplications: 0,
    reservedContainers: 0,
    countsAll: null,
    memoryStep: 256,
    reaches: ['*'],
    labels: label === '' ? { '': room } : { '': empty, [label]: room },
  };
}

const tasks = (instances: number, changes: Partial<Role> = {}) => workers({ instances, maxInstances: instances, ...changes });
const small = { memoryMb: 250, vcores: 1, gpus: 0, other: {} };

function excess(roles: Role[], room: QueueRoom | null = queue(), countsAll = true): string | null {
  return excessOverQueue(frozen({ roles }).job, room, countsAll);
}

test('a job that needs more than its queue can ever provide is refused with the keys to change', () => {
  expect(excess([tasks(40, { resources: small })])).toBe(
    'The job requests 41 vcores at the same time, including its ApplicationMaster, but queue root.a can provide at most 16 vcores. ' +
      'Lower roles.worker.instances (40) or roles.worker.resources.vcores, or choose a larger queue.',
  );
  expect(excess([tasks(15, { resources: small })])).toBeNull();
  expect(excess([tasks(16, { resources: small })])).toContain('17 vcores');
});

test('memory counts with the rounding of YARN, and vcores only if the scheduler counts them', () => {
  expect(excess([tasks(70, { resources: small })], queue(), false)).toContain('The job requests 18.5 GiB of memory');
  expect(excess([tasks(60, { resources: small })], queue(), false)).toBeNull();
});

test('an elastic role counts with its minimum, and roles that run one after the other do not add up', () => {
  expect(excess([workers({ instances: 2, maxInstances: 100, resources: small })])).toBeNull();
  const prepare = role({ name: 'prepare', instances: 14, resources: small });
  const after = [{ role: 'prepare', state: 'succeeded' }] as const;
  expect(excess([prepare, tasks(14, { resources: small, after })])).toBeNull();
  expect(excess([prepare, tasks(14, { resources: small })])).toContain('29 vcores');
});

test('each node label has its own maximum, and a label without active nodes is not judged', () => {
  expect(excess([tasks(17, { resources: small, nodeLabel: 'fast' })], queue(MAXIMUM, 'fast'))).toContain(
    'but queue root.a can provide at most 16 vcores on nodes labelled fast.',
  );
  expect(excess([tasks(16, { resources: small, nodeLabel: 'fast' })], queue(MAXIMUM, 'fast'))).toBeNull();
  expect(excess([tasks(40, { resources: small })], queue({ memory: 0, vcores: 0 }))).toBeNull();
  expect(excess([tasks(40, { resources: small })], null)).toBeNull();
});
