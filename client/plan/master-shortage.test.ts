import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { roleTags } from '../../conf/role-tags.ts';
import type { QueueRoom, Room } from '../../hadoop/yarn/queue-room.ts';
import type { Application, Node } from '../../hadoop/yarn/resource-manager-answers.ts';
import { ACTIVATED, QUEUE_FULL } from '../cluster/yarn-diagnostics.fixture.ts';
import { MasterShortages, masterAskOf, shortageOf } from './master-shortage.ts';
import type { NodeRoom } from './placement.ts';

const GIB = 1024;
const tags = ['tony-ts', ...roleTags(parseJob('name: j\ncommand: c\nroles: {worker: {}}', { file: 'job.yaml', folder: '/' }))];
const waiting = {
  id: 'application_1_0001',
  state: 'ACCEPTED',
  diagnostics: ACTIVATED,
  tags,
  user: 'alice',
  queue: 'gpu',
  startedAt: 0,
} as unknown as Application;

const WHOLE = { memory: 16 * GIB, vcores: 16 };
function queueOf(used: Room, changes: Partial<QueueRoom> = {}): QueueRoom {
  const user = { maximum: { memory: 4 * GIB, vcores: 4 }, used: { memory: 4 * GIB, vcores: 4 } };
  return {
    path: 'root.gpu',
    state: 'DRAINING',
    defaultLabel: '',
    runningApplications: 1,
    reservedContainers: 0,
    countsAll: true,
    memoryStep: null,
    reaches: [],
    labels: {
      '': { levels: [{ path: 'root.gpu', maximum: WHOLE, used }], user, masters: { maximum: { memory: GIB }, used: { memory: GIB } } },
    },
    ...changes,
  };
}
const nodeOf = (free: Room): NodeRoom => ({ host: 'a', usable: true, labels: [], total: { memory: 8 * GIB, vcores: 8 }, free });
const EMPTY_NODE = nodeOf({ memory: 8 * GIB, vcores: 8 });
const shortage = (nodes: readonly NodeRoom[], queue: QueueRoom | null, knowsUser = false) => {
  const ask = masterAskOf(waiting);
  return ask && shortageOf(ask, nodes, queue, { user: 'alice', knowsUser });
};

test("the request of a waiting ApplicationMaster is derived from the application's tags, its node label from the diagnostics", () => {
  expect(masterAskOf(waiting)).toMatchObject({ role: 'ApplicationMaster', resources: { memory: 1024, vcores: 1 }, nodeLabel: '' });
  const labelled = { ...waiting, diagnostics: ACTIVATED.replace('AM Partition = <DEFAULT_PARTITION>', 'AM Partition = a100') };
  expect(masterAskOf(labelled)?.nodeLabel).toBe('a100');
  expect(masterAskOf({ ...waiting, state: 'RUNNING' })).toBeNull();
  expect(masterAskOf({ ...waiting, diagnostics: QUEUE_FULL })).toBeNull();
  expect(masterAskOf({ ...waiting, tags: ['tony-ts'] })).toBeNull();
});

test('the message names the resource that is missing in the queue or on the nodes', () => {
  expect(shortage([EMPTY_NODE], queueOf({ memory: 8 * GIB, vcores: 16 }))).toBe(
    'queue root.gpu has nothing left of 16 vcores, but the ApplicationMaster requests 1 vcore',
  );
  expect(shortage([nodeOf({ memory: 4 * GIB, vcores: 0 })], queueOf({ memory: 4 * GIB, vcores: 8 }))).toBe(
    'no node has 1 vcore free for ApplicationMaster: no node has any',
  );
  expect(shortage([nodeOf({ memory: 512, vcores: 4 })], null)).toBe(
    'no node has 1 GiB of memory free for ApplicationMaster: the maximum is 512 MiB of memory',
  );
});

test('there is no message if enough is free, or if the scheduler may not count the resource', () => {
  expect(shortage([EMPTY_NODE], queueOf({}))).toBeNull();
  expect(shortage([nodeOf({ memory: 4 * GIB, vcores: 0 })], queueOf({ memory: 4 * GIB, vcores: 16 }, { countsAll: null }))).toBeNull();
  expect(shortage([nodeOf({ memory: 4 * GIB, vcores: -1 })], queueOf({ vcores: 17 }, { countsAll: false }))).toBeNull();
});

test('a reservation of the queue, possibly for this ApplicationMaster, suppresses the message about the queue', () => {
  const queue = queueOf({ memory: 8 * GIB, vcores: 16 }, { reservedContainers: 1 });
  expect(shortage([EMPTY_NODE], queue, true)).toBeNull();
  expect(shortage([nodeOf({ memory: 4 * GIB, vcores: 0 })], queue)).toBe('no node has 1 vcore free for ApplicationMaster: no node has any');
});

test("the user's limit counts only if the answer is about the application's user", () => {
  expect(shortage([EMPTY_NODE], queueOf({}), true)).toMatch(
    /^alice is limited to .* in queue root\.gpu and uses .*; the ApplicationMaster requests/,
  );
});

test('requests to the cluster start after a few seconds and are repeated at most every ten seconds', async () => {
  let now = 1_000_000;
  let asked = 0;
  const node = {
    host: 'a',
    state: 'RUNNING',
    labels: [],
    total: { 'memory-mb': 8192, vcores: 8 },
    available: { 'memory-mb': 4096, vcores: 0 },
  };
  const resourceManager = {
    nodes: async () => {
      asked++;
      if (asked === 3) {
        throw new Error('away');
      }
      return [node as unknown as Node];
    },
    queueRoom: async () => queueOf({ memory: 4 * GIB, vcores: 8 }),
  };
  const shortages = new MasterShortages(resourceManager, 'alice', () => now);
  const sentence = expect.stringContaining('no node has 1 vcore free');
  // The ResourceManager's clock is fast.
  const application = { ...waiting, startedAt: now + 60_000, user: 'bob' };
  expect(await shortages.of(application)).toBeNull();
  expect(asked).toBe(0);
  now += 3_000;
  for (let second = 0; second < 10; second++, now += 1_000) {
    expect(await shortages.of(application)).toEqual(sentence);
  }
  expect(asked).toBe(1);
  expect(await shortages.of({ ...application, id: 'application_1_0002', startedAt: now - 60_000 })).toEqual(sentence);
  expect(asked).toBe(2);
  now += 10_000;
  expect(await shortages.of(application)).toBeNull();
});
