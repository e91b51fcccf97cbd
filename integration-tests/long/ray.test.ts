import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { useCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';
import { SubmittedJob } from './submitted-job.ts';
import { exampleWith, resultIn } from './two-by-two.ts';

/** Runs examples/ray on YARN with Ray from PyPI, which `submit` ships. */

const cluster = useCluster();
const RAY = 'ray[default]==2.60.0';

test("ray.init() reaches all tasks, and after a worker's Ray was killed, the job has the result of Ray alone", async () => {
  const file = await exampleWith('ray', ['held.py']);
  const job = await SubmittedJob.submit(cluster, file, ['command=python3 held.py 5 train.py', 'heartbeat.interval=500ms']);
  const status = await job.reaches(({ checkpointStep }) => checkpointStep === 5);
  const raylet = (await cluster.containers(job.id)).filter(({ command }) => /\/raylet\/raylet /.test(command));
  expect(new Set(raylet.map(({ containerId }) => containerId)).size).toBe(3);

  // Without the job's token, no other process of the cluster can use Ray.
  const python = await pythonWith(path.join(ROOT, '.cache', 'python-ray-1'), [RAY]);
  const [, address = ''] = /--gcs-address=(\S+)/.exec(raylet[0]?.command ?? '') ?? [];
  const stranger = execute(python, ['-c', `import ray; ray.init(address=${JSON.stringify(address)})`], { timeout: 120_000 });
  await expect(stranger).rejects.toMatchObject({ stderr: expect.stringMatching(/ConnectionError|[Uu]nauthenticated|[Aa]uth/) });

  const container = status.tasks.find(({ role, index }) => role === 'worker' && index === 1)?.containerId;
  process.kill(raylet.find(({ containerId }) => containerId === container)?.pid as number, 'SIGKILL');
  const final = await job.ended();
  expect(final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 20 });
  // Only the task in which Ray ended is charged.
  expect(final.tasks.map(({ role, index, failures }) => [role, index, failures])).toEqual([
    ['head', 0, 0],
    ['worker', 0, 0],
    ['worker', 1, 1],
  ]);
  expect(final.notices).toEqual([expect.stringContaining('training resumes from checkpoint step-5')]);
  const { stdout } = await execute(python, ['train.py'], {
    cwd: path.join(ROOT, 'examples', 'ray'),
    env: { ...process.env, PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1', RAY_USAGE_STATS_ENABLED: '0' },
  });
  expect(resultIn(await job.output(), 'pi')).toEqual({ ...resultIn(stdout, 'pi'), nodes: 3 });
});
