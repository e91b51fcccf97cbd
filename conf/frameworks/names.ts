/** The values of `framework` in job.yaml, in the order in which documents and messages list them. */
export const FRAMEWORK_NAMES = ['tfjs', 'pytorch', 'tensorflow', 'jax', 'horovod', 'mpi', 'ray', 'none'] as const;

export type FrameworkName = (typeof FRAMEWORK_NAMES)[number];
