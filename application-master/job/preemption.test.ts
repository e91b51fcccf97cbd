import { expect, test } from 'vitest';
import { frozen, role, workers } from '../../conf/job.fixture.ts';
import { JobScenario } from './simulator/job-scenario.ts';

function scene(): JobScenario {
  const job = new JobScenario(frozen({ roles: [workers({ instances: 2 }), role({ name: 'evaluator' })] }));
  job.register();
  job.serve();
  expect(job.status().tasks.map(({ state }) => state)).toEqual(['running', 'running', 'running']);
  return job;
}

test('all ranked tasks store a checkpoint when the cluster announces the preemption of one container', () => {
  const job = scene();
  job.say({ type: 'preempting', containerIds: [job.container('worker:1'), 'container_1_0009_01_000099'] });
  expect(job.of('order-checkpoint').map(({ containerId, generation }) => [containerId, generation])).toEqual([
    [job.container('worker:0'), 1],
    [job.container('worker:1'), 1],
  ]);
  expect(job.history.filter((line) => line.startsWith('preemption-announced'))).toHaveLength(1);
  // A preemption request is not a failure, because the cluster may withdraw the request.
  expect(job.status()).toMatchObject({ state: 'running', generations: 1 });
});

test('the announced preemption of a task without a rank orders no checkpoint', () => {
  const job = scene();
  job.say({ type: 'preempting', containerIds: [job.container('evaluator:0')] });
  expect(job.of('order-checkpoint')).toEqual([]);
  expect(job.history.some((line) => line.startsWith('preemption-announced'))).toBe(true);
});
