import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { useCluster } from '../harness.ts';
import { smallMnist } from '../small-mnist.ts';
import { SubmittedJob } from './submitted-job.ts';
import { endAfterKill, exampleWith, PYTHON, resultIn } from './two-by-two.ts';

/** Runs examples/horovod on YARN with Debian's PyTorch, and with Horovod from `npm run horovod`. */

const cluster = useCluster();
const HOROVOD = path.join(ROOT, '.cache', 'horovod');
const PROGRAM = ['train.py', '--steps', '150'];

/**
 * Horovod joins the gradients that are ready at the same time into one buffer. With more than two processes, the place of a value in the
 * buffer determines the order in which the processes' values are added, so its rounding depends on timing. The training amplifies this
 * difference: the test loss of equal runs varies between 0.211 and 0.221. Without joined buffers, equal runs have equal results.
 */
const EXACT = { HOROVOD_FUSION_THRESHOLD: '0', OMP_NUM_THREADS: '1' };

test.skipIf(!existsSync(HOROVOD))(
  'two tasks run two processes each, and after one was killed, the job has the result of horovodrun',
  async () => {
    const file = await exampleWith('horovod', ['held.py']);
    const data = await smallMnist(3_000);
    const env = { ...EXACT, PYTHONPATH: HOROVOD };
    const job = await SubmittedJob.submit(cluster, file, [
      ...[
        `command=${[PYTHON, 'held.py', '50', ...PROGRAM].join(' ')}`,
        'processesPerTask=2',
        `data.mnist=${data}`,
        'checkpoint.everySteps=50',
      ],
      ...['heartbeat.interval=500ms', 'runtime=system', ...Object.entries(env).map(([name, value]) => `env.${name}=${value}`)],
    ]);
    const final = await endAfterKill(job);
    expect(final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 150 });
    const resumed = [...(await job.output()).matchAll(/rank (\d) resumes after step 50/g)].map(([, rank]) => Number(rank));
    expect(resumed.sort()).toEqual([0, 1, 2, 3]);
    const launch = ['-m', 'horovod.runner.launch', '--gloo', '-np', '4', '--network-interfaces', 'lo', PYTHON, ...PROGRAM, '--data', data];
    const alone = await execute(PYTHON, launch, { cwd: path.join(ROOT, 'examples', 'horovod'), env: { ...process.env, ...env } });
    const { loss, accuracy } = resultIn(alone.stdout, 'steps');
    expect(accuracy).toBeGreaterThan(0.85);
    expect(final.metrics).toMatchObject({ 'test/loss': loss, 'test/accuracy': accuracy });
  },
);
