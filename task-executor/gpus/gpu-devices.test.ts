import { expect, test } from 'vitest';
import { allowedDevices, type GpuDevice, hidesAll, parseDevices } from './gpu-devices.ts';

const gpu = (index: number): GpuDevice => ({ name: String(index), uuid: `GPU-${index}${index}${index}` });
const FOUR = [0, 1, 2, 3].map(gpu);

test('a partitioned GPU is replaced by its MIG instances', () => {
  const text = [
    'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)',
    '  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)',
    '  MIG 1g.5gb      Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)',
    'GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-6b6ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)',
    '',
  ].join('\n');
  expect(parseDevices(text).map(({ name }) => name)).toEqual([
    'MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f',
    'MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb',
    '1',
  ]);
  expect(parseDevices('No devices found.\n')).toEqual([]);
});

test.each([
  ['no variable', {}, '0,1,2,3'],
  ['all devices', { nvidiaVisible: 'all' }, '0,1,2,3'],
  ['devices that YARN has assigned, without isolation', { nvidiaVisible: '3,1' }, '3,1'],
  ['as many devices as the container sees', { nvidiaVisible: '4,5,6,7' }, '0,1,2,3'],
  ['a choice of the user', { cudaVisible: '2,0' }, '2,0'],
  ['UUIDs and their prefixes', { cudaVisible: 'GPU-333, GPU-1' }, '3,1'],
  ['an unknown device', { cudaVisible: '7' }, ''],
  ['both', { nvidiaVisible: '1,2', cudaVisible: '2,3' }, '2'],
])('selects the devices that the container may use: %s', (_, variables, names) => {
  const allowed = allowedDevices(FOUR, { nvidiaVisible: undefined, cudaVisible: undefined, ...variables });
  expect(allowed.map(({ name }) => name).join(',')).toBe(names);
});

test.each([
  ['', true],
  ['-1', true],
  ['NoDevFiles', true],
  ['0', false],
  [undefined, false],
])('CUDA_VISIBLE_DEVICES=%j hides all devices: %s', (value, hides) => {
  expect(hidesAll(value)).toBe(hides);
});
