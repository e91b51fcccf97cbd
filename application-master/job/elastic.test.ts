import { expect, test } from 'vitest';
import { frozen, type RoleChanges, role, workers } from '../../conf/job.fixture.ts';
import type { Role } from '../../conf/job.ts';
import { JobScenario } from './simulator/job-scenario.ts';

function job(changes: RoleChanges = {}, others: readonly Role[] = []) {
  return frozen({ roles: [workers({ instances: 2, maxInstances: 4, ...changes }), ...others] });
}

function startedWith(count: number, frozenJob = job()): JobScenario {
  const scene = new JobScenario(frozenJob);
  scene.register();
  addWorkers(scene, count);
  scene.wait(4_000);
  startAll(scene);
  return scene;
}

function addWorkers(scene: JobScenario, count: number): void {
  for (let n = 0; n < count; n++) {
    scene.hello(scene.allocate('worker', `h${n + 1}:1`));
  }
}

function startAll(scene: JobScenario): void {
  for (const { container, executor } of scene.state.tasks) {
    if (container !== null && executor?.awaiting?.answer === 'ready') {
      scene.ready(container.id, scene.state.generation + 1);
    }
  }
  scene.wait(4_000);
  for (const { container, executor } of scene.state.tasks) {
    if (container !== null && executor?.program?.phase === 'starting') {
      scene.started(container.id, executor.program.generation);
    }
  }
}

function untilAsked(scene: JobScenario): void {
  for (let waited = 0; scene.wanted('worker') === 0 && waited < 60_000; waited += 500) {
    scene.wait(500);
  }
}

function checkpoint(scene: JobScenario, step: number, ending = false): void {
  const containerId = scene.container('worker:0');
  const progress = { step, metrics: {}, checkpointStep: step, lostRank: null, notices: [], earlyEnd: null, ending };
  scene.say({ type: 'heartbeat', containerId, generation: scene.state.generation, usage: null, progress });
}

function running(scene: JobScenario): string[] {
  return scene
    .status()
    .tasks.filter(({ state }) => state === 'running')
    .map(({ index }) => `worker:${index}`);
}

test('an elastic job starts with its minimum number of workers after a short wait for more', () => {
  const scene = new JobScenario(job());
  scene.register();
  expect(scene.wanted('worker')).toBe(2);
  addWorkers(scene, 2);
  expect(scene.wanted('worker')).toBe(2);
  scene.wait(2_000);
  expect(scene.of('start')).toEqual([]);
  scene.wait(2_000);
  expect(scene.ordered('start')).toHaveLength(2);
  // The request has been withdrawn, because containers that are allocated much later would be idle.
  expect(scene.wanted('worker')).toBe(0);
  expect(scene.status()).toMatchObject({ state: 'running', message: '', elastic: { role: 'worker', running: 2, min: 2, max: 4 } });
  expect(scene.history).toContain('generation-started 2 ranked tasks (2 of 2..4 workers)');
});

test('an elastic job starts with its maximum number of workers when all are ready', () => {
  const scene = new JobScenario(job());
  scene.register();
  addWorkers(scene, 4);
  expect(scene.ordered('start')).toHaveLength(4);
});

test('an elastic job waits only a limited time for a worker that already has a container', () => {
  const scene = new JobScenario(job());
  scene.register();
  addWorkers(scene, 2);
  scene.allocate('worker');
  scene.wait(19_000);
  expect(scene.of('start')).toEqual([]);
  scene.wait(2_000);
  expect(scene.ordered('start')).toHaveLength(2);
});

test('an elastic job does not start below its minimum', () => {
  const scene = new JobScenario(job());
  scene.register();
  addWorkers(scene, 1);
  scene.wait(9_000);
  expect(scene.of('start')).toEqual([]);
  expect(scene.status()).toMatchObject({ state: 'waiting', message: expect.stringContaining('worker:1 got no container') });
});

test('an elastic job does not grow at its last checkpoint', () => {
  const scene = startedWith(2);
  checkpoint(scene, 100);
  untilAsked(scene);
  addWorkers(scene, 2);
  scene.wait(20_000);
  checkpoint(scene, 200, true);
  scene.wait(60_000);
  expect(scene.ordered('prepare')).toEqual([]);
  expect(scene.state.generation).toBe(1);
  for (const name of ['worker:0', 'worker:1']) {
    scene.exit(scene.container(name), 0);
  }
  expect(scene.result?.state).toBe('succeeded');
});

test('an elastic job grows at a checkpoint, with all workers that have become ready', () => {
  const scene = startedWith(2);
  scene.wait(10_000);
  expect(scene.wanted('worker')).toBe(0);
  checkpoint(scene, 100);
  untilAsked(scene);
  expect(scene.wanted('worker')).toBe(2);
  addWorkers(scene, 2);
  scene.wait(20_000);
  expect(scene.state.generation).toBe(1);
  checkpoint(scene, 200);
  expect(scene.ordered('prepare')).toHaveLength(2);
  startAll(scene);
  expect(running(scene)).toEqual(['worker:0', 'worker:1', 'worker:2', 'worker:3']);
  expect(
    scene
      .of('start')
      .at(-1)
      ?.members.map(({ index, taskRank }) => [index, taskRank]),
  ).toEqual([
    [0, 0],
    [1, 1],
    [2, 2],
    [3, 3],
  ]);
  expect(scene.history).toContainEqual(
    expect.stringMatching(
      /^generation-started 4 ranked tasks \(4 of 2\.\.4 workers\), newest checkpoint: step \d+; the cluster has room for worker:2, worker:3$/,
    ),
  );
  expect(scene.status().tasks.map(({ failures }) => failures)).toEqual([0, 0, 0, 0]);
});

test('an elastic job grows again only after increasing intervals', () => {
  const scene = startedWith(2);
  checkpoint(scene, 100);
  untilAsked(scene);
  addWorkers(scene, 1);
  scene.wait(10_000);
  checkpoint(scene, 200);
  startAll(scene);
  expect(running(scene)).toHaveLength(3);
  untilAsked(scene);
  addWorkers(scene, 1);
  checkpoint(scene, 300);
  expect(scene.state.gang?.phase).toBe('started');
  scene.wait(20_000);
  checkpoint(scene, 400);
  expect(scene.state.gang?.phase).toBe('forming');
});

test('an elastic job requests more workers periodically, and withdraws unanswered requests', () => {
  const scene = startedWith(2);
  checkpoint(scene, 100);
  untilAsked(scene);
  scene.wait(10_000);
  expect(scene.wanted('worker')).toBe(0);
  untilAsked(scene);
  expect(scene.wanted('worker')).toBe(2);
});

test('the failure of a worker that waits for growth does not affect the gang', () => {
  const scene = startedWith(2);
  checkpoint(scene, 100);
  untilAsked(scene);
  addWorkers(scene, 1);
  scene.wait(10_000);
  scene.end(scene.container('worker:2'), 'preempted');
  scene.wait(1_000);
  expect(scene.state.gang?.phase).toBe('started');
  checkpoint(scene, 200);
  expect(scene.state.gang?.phase).toBe('started');
});

test('an elastic job continues with the remaining workers when a lost one gets no container', () => {
  const scene = startedWith(4);
  scene.end(scene.container('worker:1'), 'preempted');
  startAll(scene);
  expect(running(scene)).toEqual(['worker:0', 'worker:2', 'worker:3']);
  expect(
    scene
      .of('start')
      .at(-1)
      ?.members.map(({ index, taskRank }) => [index, taskRank]),
  ).toEqual([
    [0, 0],
    [2, 1],
    [3, 2],
  ]);
  expect(scene.history).toContainEqual(
    expect.stringMatching(
      /^generation-started 3 ranked tasks \(3 of 2\.\.4 workers\), (newest checkpoint: step \d+|no checkpoint yet); worker:1 was lost$/,
    ),
  );
});

test('an elastic job shrinks when a worker has used up its restarts, and fails when too few workers remain', () => {
  const scene = startedWith(3, job({ restart: { policy: 'on-failure', maxRestarts: 0 } }));
  scene.exit(scene.container('worker:2'), 1);
  startAll(scene);
  expect(scene.result).toBeNull();
  expect(scene.task('worker:2').state).toBe('failed');
  expect(running(scene)).toEqual(['worker:0', 'worker:1']);
  // After another worker has been lost, only tasks that have never had a container remain.
  scene.exit(scene.container('worker:1'), 1);
  scene.serve();
  startAll(scene);
  expect(running(scene)).toEqual(['worker:0', 'worker:3']);
  scene.exit(scene.container('worker:3'), 1);
  scene.wait(6_000);
  expect(scene.result).toMatchObject({ state: 'failed', message: expect.stringContaining('worker:3') });
});

test('repeated failures without a new checkpoint fail an elastic job before all its workers have used up their restarts', () => {
  const scene = startedWith(4, job({ instances: 1, maxInstances: 40, restart: { policy: 'on-failure', maxRestarts: 0 } }));
  for (let n = 1; n < 4; n++) {
    scene.exit(scene.container(`worker:${n}`), 1);
    scene.serve();
    startAll(scene);
  }
  const next = scene.status().tasks.find(({ index, state }) => index > 0 && state === 'running');
  scene.exit(scene.container(`worker:${next?.index}`), 1);
  scene.wait(6_000);
  expect(scene.result?.message).toMatch(/failed after 3 restarts without a new checkpoint/);
});

test('an elastic job cannot continue without its chief', () => {
  const scene = startedWith(4, job({ restart: { policy: 'on-failure', maxRestarts: 1 } }));
  scene.exit(scene.container('worker:0'), 1);
  startAll(scene);
  expect(scene.state.gang?.phase).toBe('forming');
  expect(scene.wanted('worker')).toBe(1);
  scene.hello(scene.allocate('worker'));
  startAll(scene);
  expect(running(scene)).toHaveLength(4);
  scene.exit(scene.container('worker:0'), 1);
  scene.wait(6_000);
  expect(scene.result?.message).toMatch(/^worker:0 failed 2 times/);
});

test('an elastic job succeeds when all workers of its last generation have succeeded', () => {
  const scene = startedWith(2);
  scene.exit(scene.container('worker:0'), 0);
  scene.exit(scene.container('worker:1'), 0);
  scene.wait(6_000);
  expect(scene.result).toEqual({ state: 'succeeded', message: '' });
});

test('an elastic job gives up an optional worker for a required task', () => {
  const scene = new JobScenario(job({}, [role({ name: 'evaluator' })]));
  scene.register();
  scene.hello(scene.allocate('evaluator'));
  addWorkers(scene, 4);
  scene.serve();
  expect(running(scene)).toHaveLength(5);
  scene.end(scene.container('evaluator:0'), 'preempted');
  scene.wait(61_000);
  startAll(scene);
  expect(scene.status().elastic).toMatchObject({ running: 3 });
  expect(scene.history).toContainEqual(
    expect.stringMatching(
      /^generation-started 3 ranked tasks \(3 of 2\.\.4 workers\), (newest checkpoint: step \d+|no checkpoint yet); worker:3 gives up its container for evaluator:0$/,
    ),
  );
});

test('a second attempt keeps the current number of workers', () => {
  const first = startedWith(3);
  const second = new JobScenario(job(), 2, first.snapshot);
  const survivors = first.state.tasks.flatMap(({ container }) => (container === null ? [] : [container]));
  second.register(survivors);
  for (const { id } of survivors) {
    second.hello(id, { generation: 1, phase: 'running' });
  }
  expect(second.ordered('prepare')).toEqual([]);
  expect(second.status()).toMatchObject({ state: 'running', elastic: { running: 3 } });
});

test('with parameter servers, an elastic job shrinks when a lost worker gets no container', () => {
  const ps = role({ name: 'ps', kind: 'service', servesParameters: true });
  const scene = new JobScenario(
    frozen({
      roles: [workers({ instances: 1, maxInstances: 3 }), ps],
      strategy: { type: 'parameter-server', staleness: null },
    }),
  );
  scene.register();
  scene.serve();
  scene.wait(4_000);
  scene.serve();
  expect(scene.status().elastic).toMatchObject({ running: 3 });
  scene.end(scene.container('worker:2'), 'preempted');
  scene.wait(59_000);
  expect(scene.state.generation).toBe(1);
  scene.wait(2_000);
  startAll(scene);
  expect(scene.state.generation).toBe(2);
  expect(scene.status().elastic).toMatchObject({ running: 2 });
});
