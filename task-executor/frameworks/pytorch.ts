import { type GangPlace, rankedMembers } from './gang.ts';

/**
 * Returns the variables that `torchrun` sets for a worker (torch/distributed/elastic/agent/server/local_elastic_agent.py), for a task with
 * one process. `init_process_group()` reads them: rank 0 opens its store on MASTER_PORT, and the other ranks connect to it. Returns no
 * variables for a task without a rank.
 */
export function pytorchEnvironment(place: GangPlace): Record<string, string> {
  const ranked = rankedMembers(place);
  const self = ranked.find(({ role, index }) => role === place.role && index === place.index);
  const [master] = ranked;
  if (self === undefined || master === undefined) {
    return {};
  }
  const ofRole = ranked.filter(({ role }) => role === place.role);
  return {
    MASTER_ADDR: master.host,
    MASTER_PORT: String(master.port),
    RANK: String(self.rank),
    WORLD_SIZE: String(ranked.length),
    LOCAL_RANK: '0',
    LOCAL_WORLD_SIZE: '1',
    GROUP_RANK: String(self.rank),
    GROUP_WORLD_SIZE: String(ranked.length),
    ROLE_NAME: place.role,
    ROLE_RANK: String(ofRole.indexOf(self)),
    ROLE_WORLD_SIZE: String(ofRole.length),
    TORCHELASTIC_RUN_ID: place.applicationId,
    TORCHELASTIC_RESTART_COUNT: String(place.generation - 1),
    TORCHELASTIC_MAX_RESTARTS: String(place.maxRestarts),
    // With `True`, rank 0 would expect the launcher to run the store.
    TORCHELASTIC_USE_AGENT_STORE: 'False',
  };
}

/** Defaults that jobs may override. With them, NCCL reports a lost peer instead of blocking. The older name is for PyTorch before 2.2. */
export const PYTORCH_DEFAULTS = { TORCH_NCCL_ASYNC_ERROR_HANDLING: '1', NCCL_ASYNC_ERROR_HANDLING: '1' } as const;
