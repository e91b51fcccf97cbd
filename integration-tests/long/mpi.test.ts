import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { useCluster } from '../harness.ts';
import { SubmittedJob } from './submitted-job.ts';
import { endAfterKill, exampleWith, PYTHON, resultIn } from './two-by-two.ts';

/** Runs examples/mpi on YARN with Debian's Open MPI and mpi4py. */

const cluster = useCluster();

test('mpirun starts two processes in each task, and after one was killed, the job has the result of mpirun alone', async () => {
  const file = await exampleWith('mpi', ['held.py', 'mpi-layout.py']);
  // The command runs mpirun twice.
  const command = `mpirun ${PYTHON} mpi-layout.py && mpirun ${PYTHON} held.py 50 train.py`;
  const job = await SubmittedJob.submit(cluster, file, [`command=${command}`, 'runtime=system', 'heartbeat.interval=500ms']);
  const final = await endAfterKill(job);
  expect(final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 150 });
  expect(final.notices).toEqual([expect.stringContaining('training resumes from checkpoint step-50')]);
  const output = await job.output();
  const { total, correct, everyone } = resultIn(output, 'total');
  expect({ total, correct }).toEqual({ total: 1 + 4 + 9 + 16, correct: true });
  const places = everyone as readonly { readonly container: string }[];
  expect(places).toMatchObject(
    [0, 1, 2, 3].map((rank) => ({ rank, local: rank % 2, task: Math.floor(rank / 2), context: [rank, 4], variables: [] })),
  );
  const [first, second, third, fourth] = places.map(({ container }) => container);
  expect([second, fourth]).toEqual([first, third]);
  expect(third).not.toBe(first);
  const alone = await execute('mpirun', ['--allow-run-as-root', '--oversubscribe', '-np', '4', PYTHON, 'train.py'], {
    cwd: path.join(ROOT, 'examples', 'mpi'),
    env: { ...process.env, PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' },
  });
  expect(resultIn(output, 'processes')).toEqual(resultIn(alone.stdout, 'processes'));
});
