import { firstProcess, type GangMember, type GangPlace, ownMember, processesIn, rankedMembers } from '../gang.ts';

/**
 * Returns the variables that `torchrun` sets for each process of a task (torch/distributed/elastic/agent/server/local_elastic_agent.py), in
 * the order of LOCAL_RANK. `init_process_group()` reads these variables. Rank 0 opens its store on MASTER_PORT, and the other processes
 * connect to this store. For a task without a rank, returns one process without variables.
 */
export function pytorchProcesses(place: GangPlace): Record<string, string>[] {
  const ranked = rankedMembers(place);
  const self = ownMember(ranked, place);
  const [master] = ranked;
  if (self === undefined || master === undefined) {
    return [{}];
  }
  const ofRole = ranked.filter(({ role }) => role === place.role);
  const before = firstProcess(place);
  const beforeInRole = processesIn(ofRole.slice(0, ofRole.indexOf(self)));
  return Array.from({ length: self.processes }, (_, local) => ({
    MASTER_ADDR: master.host,
    MASTER_PORT: String(master.port),
    RANK: String(before + local),
    WORLD_SIZE: String(processesIn(ranked)),
    LOCAL_RANK: String(local),
    LOCAL_WORLD_SIZE: String(self.processes),
    GROUP_RANK: String(ranked.indexOf(self)),
    GROUP_WORLD_SIZE: String(ranked.length),
    ROLE_NAME: place.role,
    ROLE_RANK: String(beforeInRole + local),
    ROLE_WORLD_SIZE: String(processesIn(ofRole)),
    TORCHELASTIC_RUN_ID: place.jobId,
    TORCHELASTIC_RESTART_COUNT: String(place.generation - 1),
    TORCHELASTIC_MAX_RESTARTS: String(place.maxRestarts),
    // With `True`, rank 0 would expect the launcher to run the store.
    TORCHELASTIC_USE_AGENT_STORE: 'False',
    ...torchrunDefaults(master, ranked.indexOf(self), ranked.length),
  }));
}

/** Returns the variables that set the defaults of torchrun's options, so that a command may start torchrun in each task. */
function torchrunDefaults(master: GangMember, rank: number, tasks: number): Record<string, string> {
  return {
    PET_NNODES: String(tasks),
    PET_NODE_RANK: String(rank),
    PET_MASTER_ADDR: master.host,
    PET_MASTER_PORT: String(master.port),
  };
}

/**
 * Returns the variables that jobs may override. Both NCCL variables make NCCL report a lost peer instead of blocking. Two are needed
 * because PyTorch versions before 2.2 read only the older name. The processes share the container's vcores, because otherwise each would use
 * all cores of the node.
 */
export function pytorchDefaults(processes: number, vcores: number): Record<string, string> {
  return {
    TORCH_NCCL_ASYNC_ERROR_HANDLING: '1',
    NCCL_ASYNC_ERROR_HANDLING: '1',
    OMP_NUM_THREADS: String(Math.max(1, Math.floor(vcores / processes))),
  };
}
