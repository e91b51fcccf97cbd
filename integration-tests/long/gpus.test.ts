import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder, useCluster } from '../harness.ts';
import { SubmittedJob } from './submitted-job.ts';

/** GPUs on a node whose driver is simulated: `nvidia-smi` prints what the driver's program prints on a machine with two GPUs. */

const cluster = useCluster();

/** Returns a folder with the simulated program. The UUIDs are new, because claims on devices are valid on the whole machine. */
async function simulatedDriver(): Promise<string> {
  const folder = await temporaryFolder();
  const devices = [0, 1].map((index) => `'GPU ${index}: NVIDIA H100 80GB HBM3 (UUID: GPU-${randomUUID()})'`);
  const usage = "'0, 37, 1024, 81559' '1, 12, 2048, 81559'";
  const program = `#!/bin/sh\nif [ "$1" = -L ]; then printf '%s\\n' ${devices.join(' ')}; else printf '%s\\n' ${usage}; fi\n`;
  await writeFile(path.join(folder, 'nvidia-smi'), program, { mode: 0o755 });
  return folder;
}

/** Prints the device of each process. Python's manager creates a Unix socket in TMPDIR. */
const PROGRAM = `import os, tempfile, time
from multiprocessing import Manager
with Manager() as manager:
    shared = manager.dict(rank=os.environ["RANK"])
    devices = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    print("device", shared["rank"], devices[int(os.environ["LOCAL_RANK"])], len(devices), flush=True)
tempfile.mkstemp(prefix="left-over-")
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.1)
`;

async function submit(instances: number, gpus: number): Promise<{ job: SubmittedJob; go: () => Promise<void> }> {
  const folder = await temporaryFolder();
  const go = path.join(folder, 'go');
  await mkdir(path.join(folder, 'source'));
  await writeFile(path.join(folder, 'source', 'train.py'), PROGRAM);
  await writeFile(
    path.join(folder, 'job.yaml'),
    `name: gpus
framework: pytorch
source: source
command: /usr/bin/python3 train.py
env: {GO: ${go}, PATH: '${await simulatedDriver()}:${process.env.PATH}'}
roles: {worker: {instances: ${instances}, restart: {policy: never}, resources: {memory: 512m, gpus: ${gpus}}}}
master: {resources: {memory: 512m}}
`,
  );
  return { job: await SubmittedJob.submit(cluster, path.join(folder, 'job.yaml')), go: () => writeFile(go, '') };
}

test('two tasks on a node without GPU isolation get different GPUs, and their status shows the usage of their own GPU', async () => {
  const { job, go } = await submit(2, 1);
  const { tasks } = await job.reaches((status) => status.tasks.every(({ usage }) => (usage?.gpus.length ?? 0) > 0));
  expect(tasks.map(({ usage }) => usage?.gpus.map(({ index, utilization }) => [index, utilization])).sort()).toEqual([
    // The executor sends single-precision numbers.
    [[0, Math.fround(0.37)]],
    [[1, Math.fround(0.12)]],
  ]);
  await go();
  expect(await job.ended()).toMatchObject({ state: 'succeeded' });
  const lines = [...(await job.output()).matchAll(/device (\d) (\d) 1$/gm)].map(([, rank, device]) => ({ rank, device }));
  expect(lines.map(({ rank }) => rank).sort()).toEqual(['0', '1']);
  expect(lines.map(({ device }) => device).sort()).toEqual(['0', '1']);
});

test('a task with two GPUs runs a process for each of them', async () => {
  const { job, go } = await submit(1, 2);
  await go();
  expect(await job.ended()).toMatchObject({ state: 'succeeded' });
  expect([...(await job.output()).matchAll(/device (\d) (\d) 2$/gm)].map(([, rank, device]) => [rank, device]).sort()).toEqual([
    ['0', '0'],
    ['1', '1'],
  ]);
});

test('a task that sees fewer GPUs than YARN has allocated fails with the reason', async () => {
  const { job } = await submit(1, 3);
  const { state, message } = await job.ended();
  expect({ state, message }).toEqual({
    state: 'failed',
    message: expect.stringContaining('the task requests 3 GPUs, but its container sees only 2'),
  });
});
