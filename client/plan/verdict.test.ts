import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { QueueRoom, Room } from '../../hadoop/yarn/queue-room.ts';
import { freeInQueue, holds, MASTER, type NodeRoom, type PlannedAsk, placed, times } from './placement.ts';
import { type ClusterRoom, fitOf } from './verdict.ts';

const GIB = 1024;

function ask(role: string, least: number, resources: Room, changes: Partial<PlannedAsk> = {}): PlannedAsk {
  return { role, instances: { min: least, max: least }, resources, nodeLabel: null, optional: false, ranks: null, command: '', ...changes };
}

function node(host: string, free: Room, changes: Partial<NodeRoom> = {}): NodeRoom {
  return { host, usable: true, labels: [], total: { memory: 8 * GIB, vcores: 8, gpus: 4 }, free, ...changes };
}

const WHOLE = { memory: 16 * GIB, vcores: 16, gpus: 8 };
const EMPTY = { memory: 0, vcores: 0, gpus: 0 };
const master = ask(MASTER, 1, { memory: GIB, vcores: 1 });
const workers = (least: number, gpus: number, changes: Partial<PlannedAsk> = {}) =>
  ask('worker', least, { memory: GIB, vcores: 1, gpus }, changes);

function queueOf(used: Room, changes: Partial<QueueRoom> = {}): QueueRoom {
  return {
    path: 'root.gpu',
    state: 'RUNNING',
    defaultLabel: '',
    runningApplications: 1,
    reservedContainers: 0,
    countsAll: null,
    memoryStep: null,
    reaches: ['*'],
    labels: { '': { levels: [{ path: 'root.gpu', maximum: WHOLE, used }], user: null, masters: null } },
    ...changes,
  };
}

function room(changes: Partial<ClusterRoom> = {}): ClusterRoom {
  return {
    user: 'alice',
    largest: { memory: 8 * GIB, vcores: 8, gpus: 4 },
    nodes: [node('a', { memory: 8 * GIB, vcores: 8, gpus: 4 }), node('b', { memory: 8 * GIB, vcores: 8, gpus: 4 })],
    queue: queueOf(EMPTY),
    maySubmit: null,
    shortages: [],
    over: 'wait',
    ...changes,
  };
}

const reasons = (asks: readonly PlannedAsk[], changes: Partial<ClusterRoom>) => {
  const { verdict } = fitOf(asks, room(changes));
  return 'reasons' in verdict ? [verdict.type, ...verdict.reasons] : [verdict.type];
};

describe('a job fits now', () => {
  test('on an empty cluster, and states how many tasks of an elastic role fit', () => {
    const { verdict, fitNow } = fitOf([master, workers(2, 1, { instances: { min: 2, max: 20 } })], room());
    expect(verdict).toEqual({ type: 'fits' });
    expect(fitNow).toEqual(
      new Map([
        [MASTER, 1],
        ['worker', 8],
      ]),
    );
  });

  test('even if an optional role does not fit', () => {
    const tensorboard = ask('tensorboard', 1, { memory: 100 * GIB }, { optional: true });
    const { verdict, fitNow } = fitOf([master, tensorboard], room());
    expect([verdict.type, fitNow?.get('tensorboard')]).toEqual(['fits', 0]);
  });

  test('regardless of free vcores if the scheduler counts only memory', () => {
    const memoryOnly = { largest: { memory: 8 * GIB, vcores: 8 }, nodes: [node('a', { memory: 8 * GIB, vcores: -3 })] };
    const asks = [master, ask('worker', 2, { memory: GIB, vcores: 4 })];
    expect(reasons(asks, { ...memoryOnly, queue: queueOf({}, { countsAll: false }) })).toEqual(['fits']);
    expect(fitOf(asks, room({ ...memoryOnly, queue: null })).fitNow?.get('worker')).toBe(2);
    expect(reasons(asks, { ...memoryOnly, queue: queueOf({}, { countsAll: true }) })[0]).toBe('waits');
  });

  test('the verdict is unknown if the ResourceManager does not answer', () => {
    expect(reasons([master], { nodes: null, queue: null })).toEqual(['unknown']);
    expect(reasons([master], { nodes: null })).toEqual(['unknown']);
    expect(reasons([master], { queue: null })).toEqual(['unknown']);
    expect(reasons([master], { shortages: null })).toEqual(['unknown']);
  });
});

describe('a job waits because', () => {
  test('its queue or a parent queue is full', () => {
    expect(reasons([master, workers(3, 1)], { queue: queueOf({ ...EMPTY, gpus: 7 }), nodes: null })).toEqual([
      'waits',
      'queue root.gpu has 1 gpu left of 8 gpus, but the job requests 3 gpus',
    ]);
    const levels = [
      { path: 'root.gpu', maximum: null, used: EMPTY },
      { path: 'root', maximum: WHOLE, used: { ...EMPTY, memory: 16 * GIB } },
    ];
    expect(reasons([master], { queue: queueOf(EMPTY, { labels: { '': { levels, user: null, masters: null } } }), nodes: null })).toEqual([
      'waits',
      'queue root has nothing left of 16 GiB of memory, but the job requests 1 GiB of memory',
    ]);
  });

  test('it requests more than the maximum of the queue `default`, from which placement rules may move it', () => {
    const levels = [
      { path: 'root.default', maximum: WHOLE, used: EMPTY },
      { path: 'root', maximum: times(WHOLE, 2), used: EMPTY },
    ];
    const queue = queueOf(EMPTY, { path: 'root.default', labels: { '': { levels, user: null, masters: null } } });
    expect(reasons([master, workers(12, 1)], { queue, nodes: null })).toEqual([
      'waits',
      'queue root.default is limited to 8 gpus, but the job requests 12 gpus',
    ]);
    expect(reasons([master, workers(20, 1)], { queue, nodes: null })[0]).toBe('impossible');
  });

  test('the user has reached the limit in the queue', () => {
    const user = { maximum: { memory: 4 * GIB, vcores: 4, gpus: 2 }, used: { memory: GIB, vcores: 1, gpus: 2 } };
    const queue = queueOf(EMPTY, { labels: { '': { levels: [], user, masters: null } } });
    expect(reasons([master, workers(1, 1)], { queue })).toEqual([
      'waits',
      'alice is limited to 2 gpus in queue root.gpu and uses 2 gpus; the job requests 1 gpu',
    ]);
  });

  test('the ApplicationMasters of the queue have reached their limit (which does not apply to the first one)', () => {
    const masters = { maximum: { memory: 2 * GIB }, used: { memory: 2 * GIB } };
    const labels = { '': { levels: [], user: null, masters } };
    expect(reasons([master], { queue: queueOf(EMPTY, { labels }) })).toEqual([
      'waits',
      'the ApplicationMasters in queue root.gpu may use 2 GiB of memory in total and already use 2 GiB of memory',
    ]);
    expect(reasons([master], { queue: queueOf(EMPTY, { labels, runningApplications: 0 }) })).toEqual(['fits']);
  });

  test('no node, or not enough nodes, have enough free resources', () => {
    const nodes = [node('a', { memory: 4 * GIB, vcores: 4, gpus: 1 }), node('b', { memory: 4 * GIB, vcores: 4, gpus: 1 })];
    expect(reasons([master, workers(1, 2)], { nodes })).toEqual(['waits', 'no node has 2 gpus free for worker: the maximum is 1 gpu']);
    expect(reasons([master, workers(3, 1)], { nodes })).toEqual(['waits', 'the nodes have room for 2 of the 3 containers of worker now']);
    const apart = [node('a', { memory: 4 * GIB, vcores: 4, gpus: 0 }), node('b', { memory: 100, vcores: 4, gpus: 4 })];
    expect(reasons([master, workers(1, 1)], { nodes: apart })).toEqual([
      'waits',
      'no node has 1 GiB of memory, 1 vcore, 1 gpu free for worker',
    ]);
    expect(reasons([master], { nodes: [] })).toEqual(['waits', 'no node is active']);
  });

  test('no node with its label is in use', () => {
    const labels = { ...queueOf(EMPTY).labels, fast: { levels: [], user: null, masters: null } };
    const asks = [master, workers(1, 1, { nodeLabel: 'fast' })];
    expect(reasons(asks, { queue: queueOf(EMPTY, { labels }) })).toEqual(['waits', 'no active node is labelled fast']);
  });

  test('its queue has no capacity on nodes with its label', () => {
    const asks = [master, workers(1, 1, { nodeLabel: 'fast' })];
    const nodes = [...(room().nodes ?? []), node('c', WHOLE, { labels: ['fast'] })];
    const { verdict, fitNow } = fitOf(asks, room({ nodes }));
    expect(verdict).toEqual({ type: 'waits', reasons: ['queue root.gpu has no capacity on nodes labelled fast'] });
    expect(fitNow?.get('worker')).toBe(0);
  });

  test('the queue is full and a total of the site file is used up: all reasons are listed', () => {
    const shortage = {
      path: 'quotas.users.*.total.gpus',
      resource: 'gpus',
      limit: 4,
      asked: 2,
      used: 3,
      holders: ['application_1_0001'],
      holderCount: 1,
    };
    const queue = queueOf({ ...EMPTY, gpus: 7 });
    const text = 'quotas.users.*.total.gpus is 4 gpus, of which application_1_0001 holds 3 gpus, and this job requests 2 gpus';
    expect(reasons([master, workers(2, 1)], { queue, shortages: [shortage] })).toEqual([
      'waits',
      'queue root.gpu has 1 gpu left of 8 gpus, but the job requests 2 gpus',
      text,
    ]);
    expect(reasons([master, workers(2, 1)], { queue, shortages: [shortage], over: 'fail' })).toEqual(['rejected', text]);
    const stopped = { ...queue, state: 'STOPPED' };
    expect(reasons([master, workers(2, 1)], { queue: stopped, shortages: [shortage], over: 'fail' })).toEqual([
      'rejected',
      'queue root.gpu is STOPPED',
      text,
    ]);
  });
});

describe('a job is rejected because', () => {
  test('its queue is not running', () => {
    for (const state of ['STOPPED', 'DRAINING']) {
      expect(reasons([master], { queue: queueOf(EMPTY, { state }) })).toEqual(['rejected', `queue root.gpu is ${state}`]);
    }
  });

  test('its queue does not admit its user', () => {
    const reason = 'the ACLs of queue root.gpu do not allow alice to submit';
    expect(reasons([master], { maySubmit: false })).toEqual(['rejected', reason]);
    expect([true, null].map((maySubmit) => reasons([master], { maySubmit }))).toEqual([['fits'], ['fits']]);
  });

  test('its queue may not use nodes with its label', () => {
    const nodes = [...(room().nodes ?? []), node('c', WHOLE, { labels: ['fast'] })];
    const asks = [master, workers(1, 1, { nodeLabel: 'fast' })];
    for (const reaches of [[], ['slow']]) {
      expect(reasons(asks, { nodes, queue: queueOf(EMPTY, { reaches }) })).toEqual([
        'rejected',
        'queue root.gpu is not allowed to use nodes labelled fast',
      ]);
    }
    const labels = { ...queueOf(EMPTY).labels, fast: { levels: [], user: null, masters: null } };
    expect(reasons(asks, { nodes, queue: queueOf(EMPTY, { reaches: ['fast'], labels }) })).toEqual(['fits']);
  });
});

describe('a job can never run because', () => {
  test('a container exceeds the largest container of the cluster or has an unknown resource type; all reasons are listed', () => {
    const asks = [
      ask(MASTER, 1, { memory: 20 * GIB, vcores: 1 }),
      ask('worker', 1, { memory: 90 * GIB, vcores: 1, gpus: 9, 'yarn.io/fpga': 1 }),
    ];
    expect(reasons(asks, {})).toEqual([
      'impossible',
      'The ApplicationMaster requests 20 GiB of memory; the largest container of this cluster has 8 GiB of memory. Lower master.resources.memory.',
      'Each task of role worker requests 90 GiB of memory; the largest container of this cluster has 8 GiB of memory. Lower roles.worker.resources.memory.',
      'Each task of role worker requests 9 gpus; the largest container of this cluster has 4 gpus. Lower roles.worker.resources.gpus.',
      'Each task of role worker requests 1 of yarn.io/fpga, a resource type that this cluster does not have (memory, vcores, gpus). Remove roles.worker.resources.yarn.io/fpga.',
    ]);
  });

  test('its queue can never provide so much, even if all other jobs end', () => {
    expect(reasons([master, workers(12, 1)], {})).toEqual([
      'impossible',
      'The job requests 12 gpus at the same time, including its ApplicationMaster, but queue root.gpu can provide at most 8 gpus. ' +
        'Lower roles.worker.instances (12) or roles.worker.resources.gpus, or choose a larger queue.',
    ]);
    // The ApplicationMaster needs the last vcore.
    expect(reasons([master, workers(16, 0)], { queue: queueOf(EMPTY, { countsAll: true }) })[0]).toBe('impossible');
    expect(reasons([master, workers(15, 0)], { queue: queueOf(EMPTY, { countsAll: true }) })).toEqual(['fits']);
    expect(reasons([master, workers(2, 1, { instances: { min: 2, max: 40 } })], {})).toEqual(['fits']);
  });

  test('no node, not even an unhealthy one, has all requested resources', () => {
    const nodes = [
      node('a', EMPTY, { total: { memory: 8 * GIB, vcores: 8, gpus: 0 } }),
      node('b', EMPTY, { total: { memory: 2 * GIB, vcores: 8, gpus: 4 } }),
    ];
    const large = ask('worker', 1, { memory: 4 * GIB, vcores: 1, gpus: 1 });
    expect(reasons([large], { nodes })).toEqual([
      'impossible',
      'Each task of role worker requests 4 GiB of memory, 1 vcore, 1 gpu; no node has all of these. Request less.',
    ]);
    expect(reasons([large], { nodes: [...nodes, node('c', EMPTY, { usable: false })] })[0]).toBe('waits');
    expect(reasons([large], { nodes: [] })[0]).toBe('waits');
    // A node with unknown resources may be large enough.
    expect(reasons([large], { nodes: [...nodes, node('c', EMPTY, { total: { memory: 8 * GIB, vcores: 8 } })] })[0]).toBe('waits');
    expect(reasons([large], { nodes: [...nodes, node('c', EMPTY, { total: {} })] })[0]).toBe('waits');
  });

  test('no node has all requested resources that the scheduler counts', () => {
    const nodes = [
      node('a', { memory: 100 * GIB, vcores: 4 }, { total: { memory: 100 * GIB, vcores: 4 } }),
      node('b', { memory: 10 * GIB, vcores: 32 }, { total: { memory: 10 * GIB, vcores: 32 } }),
    ];
    const asks = [ask('worker', 1, { memory: 50 * GIB, vcores: 8 })];
    const wide = { largest: { memory: 100 * GIB, vcores: 32 }, nodes };
    const labels = { '': { levels: [], user: null, masters: null } };
    expect(reasons(asks, { ...wide, queue: queueOf(EMPTY, { labels, countsAll: false }) })).toEqual(['fits']);
    expect(reasons(asks, { ...wide, queue: queueOf(EMPTY, { labels }) })).toEqual(['fits']);
    expect(reasons(asks, { ...wide, queue: queueOf(EMPTY, { labels, countsAll: true }) })[0]).toBe('impossible');
    expect(reasons([ask('worker', 1, { memory: 200 * GIB, vcores: 1 })], { ...wide, largest: { memory: 200 * GIB, vcores: 32 } })[0]).toBe(
      'impossible',
    );
  });

  test("its memory, rounded up to YARN's allocation step, exceeds the largest container", () => {
    const asks = [ask('worker', 1, { memory: 5000, vcores: 1 })];
    const largest = { memory: 6000, vcores: 8 };
    expect(reasons(asks, { largest })[0]).toBe('fits');
    expect(reasons(asks, { largest, queue: queueOf(EMPTY, { memoryStep: 4096 }) })[0]).toBe('impossible');
  });
});

describe('placement', () => {
  const amounts = fc.record({
    memory: fc.integer({ min: 0, max: 20 }),
    vcores: fc.integer({ min: -2, max: 8 }),
    gpus: fc.integer({ min: 0, max: 4 }),
  });
  const asked = fc.record({
    memory: fc.integer({ min: 1, max: 8 }),
    vcores: fc.integer({ min: 1, max: 3 }),
    gpus: fc.integer({ min: 0, max: 2 }),
  });
  const asks = fc
    .array(fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 3 }), asked, fc.boolean()), { minLength: 1, maxLength: 4 })
    .map((all) =>
      all.map(([least, more, resources, optional], index) =>
        ask(`r${index}`, least, resources, { instances: { min: least, max: least + more }, optional: optional && index > 0 }),
      ),
    );
  const nodes = fc.array(amounts, { maxLength: 5 }).map((all) => all.map((free, index) => node(`n${index}`, free)));
  const everything = { defaultLabel: '', counted: () => true };

  test('never exceeds the free resources or the number of requested tasks', () => {
    fc.assert(
      fc.property(asks, nodes, (wanted, there) => {
        const count = placed(wanted, there, everything);
        for (const resource of ['memory', 'vcores', 'gpus'] as const) {
          const given = wanted.reduce((sum, { role, resources }) => sum + (count.get(role) ?? 0) * (resources[resource] ?? 0), 0);
          expect(given).toBeLessThanOrEqual(there.reduce((sum, { free }) => sum + Math.max(0, free[resource] ?? 0), 0));
        }
        for (const { role, instances } of wanted) {
          expect(count.get(role)).toBeLessThanOrEqual(instances.max);
        }
      }),
    );
  });

  test('places as many equal containers as fit', () => {
    fc.assert(
      fc.property(asked, nodes, (resources, there) => {
        const most = there.reduce((sum, { free }) => {
          const each = Object.entries(resources).map(([name, amount]) =>
            amount === 0 ? Infinity : Math.floor(Math.max(0, free[name] ?? 0) / amount),
          );
          return sum + Math.min(...each);
        }, 0);
        const count = placed([ask('worker', 1000, resources)], there, everything);
        expect(count.get('worker')).toBe(most);
      }),
    );
  });

  test('`fits` means that every required task can be placed; `waits` always has a reason', () => {
    fc.assert(
      fc.property(asks, nodes, fc.record({ memory: fc.nat(60), vcores: fc.nat(30), gpus: fc.nat(10) }), (wanted, there, most) => {
        const levels = [{ path: 'root.q', maximum: most, used: {} }];
        const queue = queueOf({}, { countsAll: true, labels: { '': { levels, user: null, masters: null } } });
        const { verdict, fitNow } = fitOf(wanted, room({ nodes: there, queue, largest: { memory: 20, vcores: 8, gpus: 4 } }));
        if ('reasons' in verdict) {
          expect(verdict.reasons).not.toEqual([]);
        }
        if (verdict.type !== 'fits' && verdict.type !== 'waits') {
          return;
        }
        const all = wanted.every(({ role, instances, optional }) => optional || (fitNow?.get(role) ?? 0) >= instances.min);
        expect(all).toBe(verdict.type === 'fits');
      }),
    );
  });

  test('examines each node and container of a large cluster only a few times', () => {
    const many = Array.from({ length: 5_000 }, (_, index) => node(`n${index}`, { memory: 64 * GIB, vcores: 32, gpus: 8 }));
    let looks = 0;
    const counted = (): boolean => {
      looks++;
      return true;
    };
    expect(placed([master, workers(10_000, 3)], many, { defaultLabel: '', counted }).get('worker')).toBe(10_000);
    const resourceTypes = 3;
    expect(looks).toBeLessThan(3 * resourceTypes * (many.length + 10_000));
  });

  test("the free resources of a queue are bounded by its parent queues and by the user's limit", () => {
    const levels = [
      { path: 'root.q', maximum: { memory: 10, gpus: 4 }, used: { memory: 2 } },
      { path: 'root', maximum: { memory: 20, gpus: 8 }, used: { memory: 15, gpus: 9 } },
    ];
    const user = { maximum: { memory: 4 }, used: { memory: 1 } };
    expect(freeInQueue(queueOf({}, { labels: { '': { levels, user, masters: null } } }))).toEqual({ memory: 3, gpus: 0 });
    expect(holds({ memory: 3 }, { memory: 3, gpus: 0 }, () => true)).toBe(true);
  });
});
