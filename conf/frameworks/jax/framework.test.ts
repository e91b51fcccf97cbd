import { expect, it } from 'vitest';
import type { GangPlace } from '../gang.ts';
import { member } from '../testing/member.ts';
import { jaxEnvironment } from './framework.ts';

const place: GangPlace = {
  jobId: 'application_1_0001',
  generation: 1,
  role: 'worker',
  index: 0,
  maxRestarts: 3,
  members: [member('worker', 1, 2), member('worker', 0, 1), member('chief', 3, 0), member('evaluator', 0, null)],
};

it('names the coordinator in process 0, the number of processes and the number of this process', () => {
  expect(jaxEnvironment(place)).toEqual({ JAX_COORDINATOR_ADDRESS: 'node3:4003', JAX_NUM_PROCESSES: '3', JAX_PROCESS_ID: '1' });
});

it('sets nothing for a task without a rank', () => {
  expect(jaxEnvironment({ ...place, role: 'evaluator' })).toEqual({});
});
