import type { FrozenJob, Job, Role } from './job.ts';

/** Start time for simulated jobs, in ms since the epoch. */
export const START = 1_700_000_000_000;

/** The default of job.yaml. */
export const RESTART = { policy: 'on-failure', maxRestarts: 3, onExitCodes: null } as const satisfies Role['restart'];

/** Changes to the default role. Omitted keys of `restart` keep their defaults. */
export type RoleChanges = Partial<Omit<Role, 'restart'>> & { readonly restart?: Partial<Role['restart']> };

export function role({ restart, ...changes }: RoleChanges & Pick<Role, 'name'>): Role {
  return {
    instances: 1,
    maxInstances: changes.instances ?? 1,
    resources: { memoryMb: 1024, vcores: 1, gpus: 0, other: {} },
    command: 'node train.ts',
    files: [],
    env: {},
    nodeLabel: null,
    docker: null,
    restart: { ...RESTART, ...restart },
    timeoutMs: null,
    gracePeriodMs: 3_000,
    after: [],
    endAfter: null,
    kind: 'independent',
    chief: false,
    servesParameters: false,
    spare: false,
    ...changes,
  };
}

/** Two workers with ranks. The first worker is the chief. */
export function workers(changes: RoleChanges = {}): Role {
  return role({ name: 'worker', instances: 2, kind: 'gang', chief: true, ...changes });
}

export function frozen(changes: Partial<Job> & { roles: readonly Role[] }): FrozenJob {
  return {
    version: 1,
    jobId: 'application_1_0001',
    user: 'somebody',
    submittedAt: START,
    staging: 'file:///staging',
    history: 'file:///history',
    historyShared: false,
    historyUrl: null,
    checkpointDir: 'file:///checkpoints',
    summaryDir: 'file:///summaries',
    outputDir: 'file:///output',
    data: {},
    principal: null,
    resources: [],
    roleResources: {},
    fileSystems: [],
    cacheEntries: [],
    cluster: { kind: 'yarn', hadoop: {} },
    job: {
      name: 'mnist',
      queue: 'default',
      source: null,
      framework: 'tfjs',
      processesPerTask: 'auto',
      runtime: 'default',
      python: { type: 'system' },
      data: {},
      files: [],
      env: {},
      successPolicy: 'all',
      restart: { maxRestarts: null },
      gang: { timeoutMs: 60_000 },
      heartbeat: { intervalMs: 1_000, missed: 10 },
      checkpoint: { dir: null, everySteps: 100, everyMs: null, keep: 3, sync: null },
      tensorboard: { logdir: null, serve: false, resources: { memoryMb: 1024, vcores: 1 } },
      strategy: { type: 'all-reduce' },
      wire: { dtype: 'float32', security: 'none' },
      timeoutMs: null,
      acls: { view: { users: [], groups: [] }, modify: { users: [], groups: [] } },
      kerberos: null,
      remoteAccess: true,
      master: {
        resources: { memoryMb: 1024, vcores: 1 },
        nodeLabel: null,
        docker: null,
        env: {},
        logLevel: 'info',
        failureWindowMs: null,
        startTimeoutMs: null,
      },
      priority: 0,
      tags: [],
      ...changes,
    },
  };
}
