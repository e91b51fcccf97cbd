import { expect, it } from 'vitest';
import type { GangPlace } from '../gang.ts';
import { member } from '../testing/member.ts';
import { tensorflowEnvironment } from './framework.ts';

const place: GangPlace = {
  jobId: 'application_1_0001',
  generation: 1,
  role: 'worker',
  index: 1,
  maxRestarts: 3,
  members: [
    member('worker', 1, 2, '::1'),
    member('worker', 0, 1),
    member('chief', 0, 0),
    member('ps', 0, 3),
    member('evaluator', 0, null),
    member('tensorboard', 0, null),
  ],
};
const cluster = { chief: ['node0:4000'], worker: ['node0:4000', '[::1]:4001'], ps: ['node0:4000'] };

it('lists the addresses of the ranked tasks by role and index, and names the task itself', () => {
  expect(JSON.parse(tensorflowEnvironment(place).TF_CONFIG ?? '')).toEqual({ cluster, task: { type: 'worker', index: 1 } });
});

it('an evaluator gets the addresses but is not part of the cluster', () => {
  const config = tensorflowEnvironment({ ...place, role: 'evaluator', index: 0 }).TF_CONFIG ?? '';
  expect(JSON.parse(config)).toEqual({ cluster, task: { type: 'evaluator', index: 0 } });
});
