export const FRAMEWORKS = ['tfjs', 'pytorch', 'tensorflow', 'jax', 'horovod', 'mpi', 'none'] as const;

export type Framework = (typeof FRAMEWORKS)[number];

interface FrameworkFacts {
  /** Name of the framework for messages. */
  readonly title: string;
  /** Environment variables that tony-ts sets for each task and that jobs cannot override. */
  readonly variables: readonly string[];
  /** Whether a task may run several processes. */
  readonly runsProcesses?: true;
  /** Names of roles whose tasks may have ranks. Undefined if the framework does not distinguish roles. */
  readonly rankedRoles?: readonly string[];
}

/** Frameworks other than `tfjs` and `none`. */
const OTHERS: Readonly<Partial<Record<Framework, FrameworkFacts>>> = {
  pytorch: {
    title: 'PyTorch',
    runsProcesses: true,
    variables: [
      'MASTER_ADDR',
      'MASTER_PORT',
      'RANK',
      'WORLD_SIZE',
      'LOCAL_RANK',
      'LOCAL_WORLD_SIZE',
      'GROUP_RANK',
      'GROUP_WORLD_SIZE',
      'ROLE_NAME',
      'ROLE_RANK',
      'ROLE_WORLD_SIZE',
      'TORCHELASTIC_RUN_ID',
      'TORCHELASTIC_RESTART_COUNT',
      'TORCHELASTIC_MAX_RESTARTS',
      'TORCHELASTIC_USE_AGENT_STORE',
      'PET_NNODES',
      'PET_NODE_RANK',
      'PET_MASTER_ADDR',
      'PET_MASTER_PORT',
    ],
  },
  tensorflow: { title: 'TensorFlow', variables: ['TF_CONFIG'], rankedRoles: ['chief', 'worker', 'ps'] },
  jax: { title: 'JAX', variables: ['JAX_COORDINATOR_ADDRESS', 'JAX_NUM_PROCESSES', 'JAX_PROCESS_ID'] },
  horovod: {
    title: 'Horovod',
    runsProcesses: true,
    variables: [
      'HOROVOD_RANK',
      'HOROVOD_SIZE',
      'HOROVOD_LOCAL_RANK',
      'HOROVOD_LOCAL_SIZE',
      'HOROVOD_CROSS_RANK',
      'HOROVOD_CROSS_SIZE',
      'HOROVOD_HOSTNAME',
      'HOROVOD_CONTROLLER',
      'HOROVOD_GLOO_RENDEZVOUS_ADDR',
      'HOROVOD_GLOO_RENDEZVOUS_PORT',
    ],
  },
  mpi: {
    title: 'MPI',
    runsProcesses: true,
    variables: [
      'OMPI_MCA_plm_rsh_agent',
      'OMPI_MCA_orte_default_hostfile',
      'PRTE_MCA_plm_ssh_agent',
      'PRTE_MCA_prte_default_hostfile',
      'HYDRA_LAUNCHER_EXEC',
      'HYDRA_HOST_FILE',
    ],
  },
};

/** Returns the facts about a framework. Returns null for `tfjs` and `none`, because tony-ts does not set special variables for them. */
export function factsOf(framework: Framework): FrameworkFacts | null {
  return OTHERS[framework] ?? null;
}
