import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { ensureTensorBoard } from '../client/python/ensure-tensorboard.ts';
import { ROOT } from './command.ts';
import { temporaryFolder, useCluster } from './harness.ts';
import { compareWithLauncher, compareWithTwoProcesses, finalStatus, PROGRAMS, STEPS } from './killed-program.ts';
import { pythonThatImports } from './python-environment.ts';

const cluster = useCluster();
beforeAll(async () => {
  await ensureTensorBoard();
});

/** PyTorch for the system's Python; null if the machine has none. */
const pytorch = await pythonThatImports('torch');
/** Horovod for the same Python, from `npm run horovod`. */
const HOROVOD = path.join(ROOT, '.cache', 'horovod');

/** Fails in its first generation, after one complete and one half-written checkpoint. Then resumes from the complete one. */
const SYNCED = `
  set -e
  if [ $TONY_GENERATION = 1 ]; then
    if [ $TONY_TASK_RANK = 1 ]; then sleep 600; fi
    mkdir ckpt/step-10 && echo ten > ckpt/step-10/weights && touch ckpt/step-10.done
    mkdir ckpt/step-20 && echo half > ckpt/step-20/weights
    exit 3
  fi
  [ "$(echo ckpt/*)" = "ckpt/step-10 ckpt/step-10.done" ]
  echo "$(cat ckpt/step-10/weights), thirty" > ckpt/model-30.bin && touch ckpt/model-30.bin.done`;

test('checkpoint.sync stores only complete checkpoints, and restores the newest one for all tasks', async () => {
  const file = path.join(await temporaryFolder(), 'job.yaml');
  const command = SYNCED.trim().replace(/^\s*/gm, '  ');
  const job = 'checkpoint: {sync: ckpt, keep: 1}\nroles: {worker: {instances: 2, resources: {memory: 512m}}}';
  await writeFile(file, `name: synced\nframework: none\nruntime: system\nheartbeat: {interval: 300ms}\n${job}\ncommand: |\n${command}\n`);
  const submitted = await cluster.run(['submit', '--conf', file, '--detach']);
  expect(submitted).toMatchObject({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(submitted.stdout)?.[0] ?? '';
  await cluster.ended(id);
  const final = await finalStatus(cluster, id);
  expect(final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 30 });
  const folder = new URL(final.checkpointUri).pathname;
  const steps = (await cluster.hdfsTree(folder)).filter(({ path: name }) => /\/step-\d+$/.test(name));
  // The generation keeps the checkpoint that it has started from.
  expect(steps).toHaveLength(2);
  expect((await cluster.hdfsRead(`${folder}/step-30/model-30.bin`)).toString()).toBe('ten, thirty\n');
});

test.skipIf(pytorch === null)('PyTorch: a job with a killed program has the result of an undisturbed run under torchrun', async () => {
  await compareWithLauncher(cluster, { example: 'pytorch', python: pytorch as string, arguments: STEPS, hasSummaries: true }, [
    path.join(PROGRAMS, 'elastic-launch.py'),
  ]);
});

test.skipIf(pytorch === null || !existsSync(HOROVOD))(
  'Horovod: a job with a killed program has the result of an undisturbed run under horovodrun',
  async () => {
    const python = pytorch as string;
    const launch = ['-m', 'horovod.runner.launch', '--gloo', '-np', '2', '--network-interfaces', 'lo', python];
    await compareWithLauncher(cluster, { example: 'horovod', python, arguments: STEPS, hasSummaries: false, packages: HOROVOD }, launch);
  },
);

test('TensorFlow: a job with a killed program has the result of an undisturbed run of two processes', async () => {
  await compareWithTwoProcesses(cluster, 'tensorflow', 'tensorflow-cpu==2.21.0', true);
});
