import { randomUUID } from 'node:crypto';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { type AssignedGpus, assignGpus } from './assigned-gpus.ts';
import type { GpuDevice } from './gpu-devices.ts';

const role = (gpus: number) => ({ resources: { memoryMb: 1024, vcores: 1, gpus, other: {} } });
let devices: GpuDevice[];

beforeEach(() => {
  // The test uses new UUIDs, because claims are valid on the whole machine.
  devices = [0, 1, 2, 3].map((index) => ({ name: String(index), uuid: `GPU-${randomUUID()}` }));
});

async function assign(
  gpus: number,
  { container = {}, job = {}, list = async () => devices as readonly GpuDevice[] | null, others = gpus } = {},
): Promise<AssignedGpus> {
  const request = { job: { roles: [role(gpus), role(others)] }, role: role(gpus), container, jobEnvironment: job };
  const assigned = await assignGpus({ ...request, signal: new AbortController().signal }, list, 0);
  onTestFinished(() => assigned.claim?.release());
  return assigned;
}

const visible = ({ environment }: AssignedGpus): string | undefined => environment.CUDA_VISIBLE_DEVICES;

test('two tasks on one node share no GPU, and released GPUs are free again', async () => {
  const first = await assign(2);
  expect(first.environment).toEqual({ CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: '0,1' });
  const second = await assign(1);
  expect(visible(second)).toBe('2');
  await expect(assign(2)).rejects.toMatchObject({
    code: 'GPUS_NOT_FOUND',
    message: 'the task requests 2 GPUs, but other tasks use too many of the 4 GPUs that its container sees',
  });
  first.claim?.release();
  expect(visible(await assign(3))).toBe('0,1,3');
});

test('refuses to start with fewer GPUs than requested', async () => {
  await expect(assign(5)).rejects.toThrow('the task requests 5 GPUs, but its container sees only 4');
  await expect(assign(2, { container: { CUDA_VISIBLE_DEVICES: '3' } })).rejects.toThrow('sees only 1');
  await expect(assign(1, { list: async () => [] })).rejects.toThrow('sees only 0');
});

test.each([
  ['a node without a driver', { list: async () => null }],
  ['devices that the job has chosen', { job: { CUDA_VISIBLE_DEVICES: '1' } }],
  ['a user who hides all devices', { container: { CUDA_VISIBLE_DEVICES: '-1' } }],
])('sets nothing for %s', async (_, options) => {
  expect(await assign(1, options)).toEqual({ environment: {}, claim: null });
});

test('in a job that requests GPUs, a role without GPUs sees none', async () => {
  expect(visible(await assign(0, { others: 1 }))).toBe('-1');
  expect(visible(await assign(0))).toBeUndefined();
});
