import { type GangPlace, rankedMembers } from '../gang.ts';

/**
 * Prefix of the node names that stand for the other tasks in the hostfiles. Several tasks may run on one host, so host names would be
 * ambiguous.
 */
const NODE_NAME = 'tony-';

export interface MpiFiles {
  /** Open MPI hostfile, in the format `NAME slots=N`. */
  readonly openMpiHosts: string;
  /** Hostfile for Hydra, the MPICH process manager, in the format `NAME:N`. */
  readonly hydraHosts: string;
  /** Program that mpirun runs instead of ssh. The program's arguments are a node name and a command. */
  readonly remoteShell: string;
}

/** Returns the contents of the hostfiles. Each hostfile begins with rank 0's node, on which mpirun runs. */
export function mpiHosts(place: GangPlace): { readonly openMpi: string; readonly hydra: string } {
  const nodes = rankedMembers(place).map(({ taskRank, processes }) => ({
    name: taskRank === 0 ? 'localhost' : `${NODE_NAME}${taskRank}`,
    processes,
  }));
  return {
    openMpi: nodes.map(({ name, processes }) => `${name} slots=${processes}\n`).join(''),
    hydra: nodes.map(({ name, processes }) => `${name}:${processes}\n`).join(''),
  };
}

/** Returns a node's rank, or null if the name does not have the format of a node name. */
export function rankOfNode(name: string): number | null {
  const digits = name.startsWith(NODE_NAME) ? name.slice(NODE_NAME.length) : '';
  return /^\d{1,9}$/.test(digits) ? Number(digits) : null;
}

/**
 * Returns the variables that make mpirun start processes in the other tasks. Supports Open MPI 4 (ORTE), Open MPI 5 (PRRTE) and MPICH
 * (Hydra).
 */
export function mpirunVariables({ openMpiHosts, hydraHosts, remoteShell }: MpiFiles): Record<string, string> {
  return {
    OMPI_MCA_plm: 'rsh',
    OMPI_MCA_plm_rsh_agent: remoteShell,
    // Otherwise, the daemons in other tasks would try to start further daemons.
    OMPI_MCA_plm_rsh_no_tree_spawn: '1',
    OMPI_MCA_orte_default_hostfile: openMpiHosts,
    // Otherwise, daemons would leave their task's session.
    OMPI_MCA_orte_leave_session_attached: '1',
    PRTE_MCA_plm: 'ssh',
    PRTE_MCA_plm_ssh_agent: remoteShell,
    PRTE_MCA_plm_ssh_no_tree_spawn: '1',
    PRTE_MCA_prte_default_hostfile: openMpiHosts,
    PRTE_MCA_prte_leave_session_attached: '1',
    HYDRA_LAUNCHER: 'ssh',
    HYDRA_LAUNCHER_EXEC: remoteShell,
    HYDRA_HOST_FILE: hydraHosts,
  };
}

/**
 * Returns the variables that make tasks on the same host communicate over TCP. Without them, two tasks on one host would use the same
 * shared-memory files, because Open MPI derives the names of these files from the host name.
 */
export function sharedHostVariables(place: GangPlace): Record<string, string> {
  const ranked = rankedMembers(place);
  const isShared = new Set(ranked.map(({ host }) => host)).size < ranked.length;
  return isShared && ranked.some(({ processes }) => processes > 1) ? { OMPI_MCA_btl: '^vader,sm' } : {};
}

/** mpirun refuses to run as root unless both variables are set. */
export const AS_ROOT = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
