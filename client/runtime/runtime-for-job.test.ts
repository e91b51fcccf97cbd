import { expect, test } from 'vitest';
import { namesGpu, usesGpuRuntime } from './runtime-for-job.ts';

const roles = (gpus: number) => [0, gpus].map((each) => ({ resources: { memoryMb: 1024, vcores: 1, gpus: each, other: {} } }));
const GPU_JOB = { runtime: 'default', framework: 'tfjs', roles: roles(1) } as const;

test.each([
  ['runtime: gpu', { ...GPU_JOB, runtime: 'gpu', roles: roles(0) }, false, true],
  ['a job that requests GPUs', GPU_JOB, true, true],
  ['a job that requests GPUs, before the build', GPU_JOB, false, false],
  ['a job without GPUs', { ...GPU_JOB, roles: roles(0) }, true, false],
  ['another framework', { ...GPU_JOB, framework: 'pytorch' }, true, false],
] as const)('usesGpuRuntime decides whether a job gets the runtime with CUDA libraries: %s', async (_, job, isBuilt, uses) => {
  const lines: string[] = [];
  expect(await usesGpuRuntime(job, { isBuilt: async () => isBuilt, hasGpus: async () => true }, (line) => lines.push(line))).toBe(uses);
  expect(lines).toEqual(job === GPU_JOB && !isBuilt ? [expect.stringContaining('tony-ts runtime build --gpu')] : []);
});

test('a job on a machine without a GPU gets no advice to build the runtime with CUDA libraries', async () => {
  const lines: string[] = [];
  const facts = { isBuilt: async () => false, hasGpus: async () => false };
  expect(await usesGpuRuntime(GPU_JOB, facts, (line) => lines.push(line))).toBe(false);
  expect(lines).toEqual([]);
});

test.each([
  [['null', 'nvidia0', 'nvidiactl'], true],
  [['dxg'], true],
  [['null', 'nvidiactl', 'nvram'], false],
])('a machine with the devices %j has a GPU: %s', (devices, has) => {
  expect(namesGpu(devices)).toBe(has);
});
