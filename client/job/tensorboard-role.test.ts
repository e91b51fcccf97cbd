import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { bringsTensorBoard, withTensorBoard } from './tensorboard-role.ts';

const job = (text: string) => parseJob(`name: mnist\ncommand: node train.ts\n${text}\n`, { file: 'job.yaml', folder: '/x', set: [] });

test('withTensorBoard appends TensorBoard as a sidecar role without ranks', () => {
  const { roles } = withTensorBoard(job('roles: {worker: {instances: 2}}\ntensorboard: {resources: {memory: 2g}}'));
  expect(roles.map(({ name }) => name)).toEqual(['worker', 'tensorboard']);
  expect(roles[1]).toMatchObject({
    kind: 'sidecar',
    servesParameters: false,
    spare: true,
    chief: false,
    instances: 1,
    maxInstances: 1,
    resources: { memoryMb: 2048, vcores: 1 },
  });
});

test.each(['roles: {worker: {}}\ntensorboard: false', 'roles: {worker: {}, tensorboard: {kind: sidecar}}\ntensorboard: true'])(
  'adds no role for %j',
  (text) => {
    const plain = job(text);
    expect(bringsTensorBoard(plain)).toBe(false);
    expect(withTensorBoard(plain)).toBe(plain);
  },
);
