import type { GangPlace } from './gang.ts';
import { ownMember, rankedMembers } from './gang.ts';

/** Prefix of the names under which mpirun knows the other tasks. Several tasks may run on one host, so host names would be ambiguous. */
const NODE_NAME = 'tony-';

export interface MpiFiles {
  /** Host file of Open MPI: `NAME slots=N`. */
  readonly openMpiHosts: string;
  /** Host file of MPICH's Hydra: `NAME:N`. */
  readonly hydraHosts: string;
  /** Program that mpirun runs instead of ssh. Its arguments are the name of a node and a command. */
  readonly remoteShell: string;
}

/** Returns the contents of the host files. Each file begins with the node of rank 0, on which mpirun runs. */
export function mpiHosts(place: GangPlace): { readonly openMpi: string; readonly hydra: string } {
  const nodes = rankedMembers(place).map(({ rank, processes }) => ({ name: rank === 0 ? 'localhost' : `${NODE_NAME}${rank}`, processes }));
  return {
    openMpi: nodes.map(({ name, processes }) => `${name} slots=${processes}\n`).join(''),
    hydra: nodes.map(({ name, processes }) => `${name}:${processes}\n`).join(''),
  };
}

/** Returns the rank of a node, or null if the name is not in the host files. */
export function rankOfNode(name: string): number | null {
  const digits = name.startsWith(NODE_NAME) ? name.slice(NODE_NAME.length) : '';
  return /^\d{1,9}$/.test(digits) ? Number(digits) : null;
}

/** Returns true if the task takes part in MPI. Rank 0 runs mpirun, and the other ranks run the commands of mpirun. */
export function runsMpi(place: GangPlace): boolean {
  return ownMember(rankedMembers(place), place) !== undefined;
}

/**
 * Returns the variables with which mpirun starts processes in the other tasks. Supports Open MPI 4 (ORTE), Open MPI 5 (PRRTE) and MPICH
 * (Hydra).
 */
export function mpirunVariables({ openMpiHosts, hydraHosts, remoteShell }: MpiFiles): Record<string, string> {
  return {
    OMPI_MCA_plm: 'rsh',
    OMPI_MCA_plm_rsh_agent: remoteShell,
    // Otherwise, the daemons in other tasks would try to start further daemons.
    OMPI_MCA_plm_rsh_no_tree_spawn: '1',
    OMPI_MCA_orte_default_hostfile: openMpiHosts,
    // Otherwise, daemons would leave the session of their task.
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
 * Returns the variables that make tasks on the same host communicate over TCP. Open MPI derives the names of its shared-memory files from
 * the host name, so two tasks on a host would use the same files.
 */
export function sharedHostVariables(place: GangPlace): Record<string, string> {
  const ranked = rankedMembers(place);
  const isShared = new Set(ranked.map(({ host }) => host)).size < ranked.length;
  return isShared && ranked.some(({ processes }) => processes > 1) ? { OMPI_MCA_btl: '^vader,sm' } : {};
}

/** mpirun refuses to run as root unless both variables are set. */
export const AS_ROOT = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
