import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { GpuUsage, parseGpus } from './gpu-usage.ts';

it('parses the output of nvidia-smi', () => {
  expect(parseGpus('0, 37, 1024, 81559\n1, 0, 0, 81559\n')).toEqual([
    { index: 0, utilization: 0.37, memoryUsedBytes: 2 ** 30, memoryTotalBytes: 81_559 * 2 ** 20 },
    { index: 1, utilization: 0, memoryUsedBytes: 0, memoryTotalBytes: 81_559 * 2 ** 20 },
  ]);
  expect(parseGpus('0, [N/A], 1, 2\n')).toMatchObject([{ utilization: 0 }]);
  expect(parseGpus('No devices were found\n')).toEqual([]);
  expect(parseGpus('')).toEqual([]);
});

it('queries nvidia-smi in the background', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'tony-gpu-'));
  const { PATH } = process.env;
  onTestFinished(() => {
    process.env.PATH = PATH;
    rmSync(folder, { recursive: true });
  });
  const program = path.join(folder, 'nvidia-smi');
  writeFileSync(program, '#!/bin/bash\necho "0, 50, 1, 2"\n');
  chmodSync(program, 0o755);
  process.env.PATH = `${folder}:${PATH}`;
  const gpus = new GpuUsage(true);
  expect(gpus.sample(0)).toEqual([]);
  let minute = 0;
  // The samples are a minute apart, so the sampler retries a query that timed out.
  await expect.poll(() => gpus.sample(++minute * 60_000)).toMatchObject([{ utilization: 0.5 }]);
  expect(new GpuUsage(false).sample(0)).toEqual([]);
});
