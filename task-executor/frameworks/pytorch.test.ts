import { describe, expect, it } from 'vitest';
import type { GangPlace } from './gang.ts';
import { pytorchEnvironment } from './pytorch.ts';

const member = (role: string, index: number, rank: number | null) => ({ role, index, rank, host: `node${index}`, port: 4000 + index });

const place: GangPlace = {
  applicationId: 'application_1_0001',
  generation: 3,
  role: 'worker',
  index: 1,
  maxRestarts: 5,
  members: [member('worker', 0, 1), member('worker', 1, 2), member('chief', 0, 0), member('evaluator', 0, null)],
};

describe('pytorchEnvironment', () => {
  it("sets torchrun's variables; a restart is a later generation, and the store runs in rank 0", () => {
    expect(pytorchEnvironment(place)).toEqual({
      MASTER_ADDR: 'node0',
      MASTER_PORT: '4000',
      RANK: '2',
      WORLD_SIZE: '3',
      LOCAL_RANK: '0',
      LOCAL_WORLD_SIZE: '1',
      GROUP_RANK: '2',
      GROUP_WORLD_SIZE: '3',
      ROLE_NAME: 'worker',
      ROLE_RANK: '1',
      ROLE_WORLD_SIZE: '2',
      TORCHELASTIC_RUN_ID: 'application_1_0001',
      TORCHELASTIC_RESTART_COUNT: '2',
      TORCHELASTIC_MAX_RESTARTS: '5',
      TORCHELASTIC_USE_AGENT_STORE: 'False',
    });
  });

  it('sets nothing for a task without a rank', () => {
    expect(pytorchEnvironment({ ...place, role: 'evaluator', index: 0 })).toEqual({});
  });
});
