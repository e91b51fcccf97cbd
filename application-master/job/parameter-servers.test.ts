import { expect, test } from 'vitest';
import { frozen, role, workers } from '../../conf/job.fixture.ts';
import { JobScenario } from './simulator/job-scenario.ts';
import { hasTrainingEnded } from './state/membership.ts';

const servers = () => role({ name: 'ps', instances: 2, kind: 'service', servesParameters: true });

function job() {
  return frozen({ roles: [workers(), servers()], strategy: { type: 'parameter-server', staleness: null } });
}

test('a generation includes all parameter servers, without ranks', () => {
  const scene = JobScenario.running(job());
  const starts = scene.of('start');
  expect(starts).toHaveLength(4);
  expect(starts[0]?.members.map(({ role: name, index, taskRank }) => [name, index, taskRank])).toEqual([
    ['worker', 0, 0],
    ['worker', 1, 1],
    ['ps', 0, null],
    ['ps', 1, null],
  ]);
  expect(scene.history).toContain('generation-started 2 ranked tasks, 2 parameter servers');
});

test('a failed worker is replaced alone, in the same generation', () => {
  const scene = JobScenario.running(job());
  const before = scene.container('worker:1');
  scene.exit(before, 1);
  scene.end(before, 'exited', 0);
  const since = scene.actions.length;
  scene.serve();
  expect(scene.state.generation).toBe(1);
  const after = scene.actions.slice(since);
  expect(after.filter((action) => action.type === 'prepare')).toEqual([]);
  expect(after.filter((action) => action.type === 'start')).toEqual([
    expect.objectContaining({ containerId: scene.container('worker:1'), generation: 1 }),
  ]);
  expect(
    scene
      .of('start')
      .at(-1)
      ?.members.find((member) => member.index === 1 && member.role === 'worker'),
  ).toMatchObject({ taskRank: 1 });
  expect(scene.status().state).toBe('running');
});

test('a replacement starts only when the lost worker can no longer push gradients', () => {
  const scene = JobScenario.running(job());
  const before = scene.container('worker:1');
  scene.silent.add(before);
  scene.wait(11_000);
  const since = scene.of('start').length;
  scene.serve();
  expect(scene.task('worker:1').state).toBe('registered');
  expect(scene.of('start')).toHaveLength(since);
  scene.end(before, 'exited', 137);
  expect(scene.of('start')).toHaveLength(since + 1);
});

test('the failure of a parameter server restarts all tasks from the checkpoint', () => {
  const scene = JobScenario.running(job());
  scene.exit(scene.container('ps:0'), -1, { signal: 'SIGKILL' });
  scene.wait(4_000);
  scene.serve();
  expect(scene.state.generation).toBe(2);
  expect(scene.of('start').slice(4)).toHaveLength(4);
  expect(scene.history).toContainEqual(
    expect.stringMatching(/^generation-started 2 ranked tasks, 2 parameter servers, no checkpoint yet; ps:0 failed$/),
  );
});

test('the loss of a parameter server is charged to the server and not to the workers that report it', () => {
  const scene = JobScenario.running(job());
  // Lost-peer reports number the servers after the workers' ranks, so 3 is ps:1.
  scene.lostPeer(scene.container('worker:0'), 3);
  scene.lostPeer(scene.container('worker:1'), 3);
  scene.wait(12_000);
  expect(scene.task('ps:1').failures).toBe(1);
  expect(scene.task('worker:0').failures + scene.task('worker:1').failures).toBe(0);
});

test('the job succeeds when its workers have succeeded, and stops the parameter servers', () => {
  const scene = JobScenario.running(job());
  const ends = [scene.container('ps:0'), scene.container('ps:1')];
  scene.exit(scene.container('worker:0'), 0);
  scene.exit(scene.container('worker:1'), 0);
  scene.wait(6_000);
  expect(scene.result).toEqual({ state: 'succeeded', message: '' });
  expect(scene.ordered('stop-program')).toEqual(expect.arrayContaining(ends));
  expect(scene.task('ps:0').state).toBe('stopped');
});

test('servers stop when the workers have succeeded, while the evaluator continues', () => {
  const withEvaluator = { ...job(), job: { ...job().job, roles: [...job().job.roles, role({ name: 'evaluator' })] } };
  const scene = JobScenario.running(withEvaluator);
  const [server = '', other = ''] = [scene.container('ps:0'), scene.container('ps:1')];
  scene.storageAway = true;
  scene.exit(scene.container('worker:0'), 0);
  expect(hasTrainingEnded(scene.state)).toBe(false);
  scene.exit(scene.container('worker:1'), 0);
  expect([scene.task('ps:0').state, scene.ordered('stop-program')]).toEqual(['stopped', []]);
  // The evaluator's program learns that no more checkpoints follow.
  expect(hasTrainingEnded(scene.state)).toBe(true);
  // The servers keep running until the workers' result has been saved. A server failure during that time has no consequences.
  scene.exit(server, -1, { signal: 'SIGKILL' });
  scene.end(server, 'exited', 137);
  scene.storageAway = false;
  scene.wait(1_000);
  scene.exit(scene.container('evaluator:0'), 1);
  scene.serve();
  expect(scene.ordered('stop-program')).toContain(other);
  expect(scene.status()).toMatchObject({ state: 'running', generations: 1 });
  expect(scene.history).toContain('task-stopped all ranked tasks had ended');
  const second = new JobScenario(withEvaluator, 2, scene.snapshot);
  second.register([scene.state.tasks.find((task) => task.role.name === 'evaluator')?.container].flatMap((each) => each ?? []));
  second.hello(scene.container('evaluator:0'), { generation: 1, phase: 'running' });
  second.exit(scene.container('evaluator:0'), 0, { generation: 1 });
  second.wait(6_000);
  expect([second.of('ask').filter(({ count }) => count > 0), second.result]).toEqual([[], { state: 'succeeded', message: '' }]);
});

test('a second attempt keeps all tasks running, and starts the worker that was being replaced', () => {
  const first = JobScenario.running(job());
  const lost = first.container('worker:1');
  first.exit(lost, 1);
  first.end(lost, 'exited', 0);
  const second = new JobScenario(job(), 2, first.snapshot);
  const survivors = first.state.tasks.flatMap(({ container }) => (container === null ? [] : [container]));
  second.register(survivors);
  for (const { id } of survivors) {
    second.hello(id, { generation: 1, phase: 'running' });
  }
  expect(second.ordered('prepare')).toEqual([]);
  second.serve();
  expect(second.state.generation).toBe(1);
  expect(second.of('start')).toEqual([expect.objectContaining({ containerId: second.container('worker:1'), generation: 1 })]);
  expect(second.of('start')[0]?.members.filter(({ taskRank }) => taskRank !== null)).toHaveLength(2);
});

test('a second attempt that waits for a parameter server does not charge workers that exited because of its loss', () => {
  const first = JobScenario.running(job());
  const second = new JobScenario(job(), 2, first.snapshot);
  const survivors = first.state.tasks.flatMap(({ container }) => (container === null ? [] : [container]));
  second.register(survivors);
  const [one = '', two = '', server = ''] = survivors.map(({ id }) => id);
  for (const id of [one, two, server]) {
    second.hello(id, { generation: 1, phase: 'running' });
  }
  second.lostPeer(one, 3);
  second.wait(20_000);
  second.exit(one, 1, { generation: 1 });
  second.wait(60_000);
  expect(second.history).toContainEqual(expect.stringMatching(/^task-failed \(not counted: caused by the cluster\)/));
  expect(second.task('worker:0').failures).toBe(0);
  second.serve();
  expect(second.status()).toMatchObject({ state: 'running', generations: 2 });
});
