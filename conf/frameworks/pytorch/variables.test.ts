import { describe, expect, it } from 'vitest';
import type { GangPlace } from '../gang.ts';
import { member } from '../testing/member.ts';
import { pytorchDefaults, pytorchProcesses } from './variables.ts';

const place: GangPlace = {
  jobId: 'application_1_0001',
  generation: 3,
  role: 'worker',
  index: 1,
  maxRestarts: 5,
  members: [member('worker', 0, 1), member('worker', 1, 2), member('chief', 0, 0), member('evaluator', 0, null)],
};

describe('pytorchProcesses', () => {
  it("sets torchrun's variables: a later generation counts as a restart, and rank 0 runs the store", () => {
    expect(pytorchProcesses(place)).toEqual([
      {
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
        PET_NNODES: '3',
        PET_NODE_RANK: '2',
        PET_MASTER_ADDR: 'node0',
        PET_MASTER_PORT: '4000',
      },
    ]);
  });

  it('numbers the processes of all tasks, even if tasks have different numbers of processes', () => {
    const members = [
      { ...member('chief', 0, 0), processes: 1 },
      { ...member('worker', 0, 1), processes: 4 },
      { ...member('worker', 1, 2), processes: 2 },
    ];
    const chosen = [
      'RANK',
      'LOCAL_RANK',
      'LOCAL_WORLD_SIZE',
      'GROUP_RANK',
      'GROUP_WORLD_SIZE',
      'ROLE_RANK',
      'ROLE_WORLD_SIZE',
      'WORLD_SIZE',
    ];
    const processes = pytorchProcesses({ ...place, members });
    expect(processes.map((each) => chosen.map((name) => Number(each[name])))).toEqual([
      [5, 0, 2, 2, 3, 4, 6, 7],
      [6, 1, 2, 2, 3, 5, 6, 7],
    ]);
  });

  it('limits the threads of each process if the task has several, as torchrun does', () => {
    expect(pytorchDefaults(1, 4)).toMatchObject({ OMP_NUM_THREADS: '4' });
    expect(pytorchDefaults(2, 4)).toMatchObject({ OMP_NUM_THREADS: '2' });
    expect(pytorchDefaults(2, 1)).toMatchObject({ OMP_NUM_THREADS: '1' });
  });

  it('sets nothing for a task without a rank', () => {
    expect(pytorchProcesses({ ...place, role: 'evaluator', index: 0 })).toEqual([{}]);
  });
});
