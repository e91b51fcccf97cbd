import { firstProcess, type GangPlace, ownMember, processesIn, type RankedMember, rankedMembers } from '../gang.ts';

/** Addresses that a task's processes use to find the processes in other tasks. */
export interface HorovodNetwork {
  /** Port on 127.0.0.1 on which the executor relays requests to the rendezvous store. */
  readonly rendezvousPort: number;
  /** The network interface that has this host's address, or null if unknown. */
  readonly interface: string | null;
}

/**
 * How long Gloo waits for a missing process, in seconds. Horovod's default of 30 s is too short, because some tasks start late, for example
 * while they restore a checkpoint. The ApplicationMaster detects lost tasks before this timeout expires.
 */
const TIMEOUT_SECONDS = 600;

/**
 * Returns the variables that `horovodrun --gloo` sets for each process of a task (horovod/runner/gloo_run.py), in the order of their local
 * ranks. Each task appears as a separate host, because its processes see only the GPUs in their own container. For a task without a rank,
 * returns one process without variables.
 */
export function horovodProcesses(place: GangPlace, { rendezvousPort }: HorovodNetwork): Record<string, string>[] {
  const ranked = rankedMembers(place);
  const self = ownMember(ranked, place);
  if (self === undefined) {
    return [{}];
  }
  const before = ranked.slice(0, ranked.indexOf(self));
  const first = firstProcess(place);
  return Array.from({ length: self.processes }, (_, local) => {
    // The cross rank is the process's position among all processes that have the same local rank.
    const hasLocal = ({ processes }: RankedMember): boolean => processes > local;
    return {
      HOROVOD_RANK: String(first + local),
      HOROVOD_SIZE: String(processesIn(ranked)),
      HOROVOD_LOCAL_RANK: String(local),
      HOROVOD_LOCAL_SIZE: String(self.processes),
      HOROVOD_CROSS_RANK: String(before.filter(hasLocal).length),
      HOROVOD_CROSS_SIZE: String(ranked.filter(hasLocal).length),
      HOROVOD_HOSTNAME: `${self.role}-${self.index}`,
      HOROVOD_CONTROLLER: 'gloo',
      HOROVOD_GLOO_RENDEZVOUS_ADDR: '127.0.0.1',
      HOROVOD_GLOO_RENDEZVOUS_PORT: String(rendezvousPort),
    };
  });
}

/** Returns the variables that jobs may override. */
export function horovodDefaults(network: HorovodNetwork): Record<string, string> {
  return {
    HOROVOD_CPU_OPERATIONS: 'gloo',
    HOROVOD_GLOO_TIMEOUT_SECONDS: String(TIMEOUT_SECONDS),
    ...(network.interface !== null && { HOROVOD_GLOO_IFACE: network.interface, NCCL_SOCKET_IFNAME: network.interface }),
  };
}
