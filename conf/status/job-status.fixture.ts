import { type JobInfo, jobInfo } from './job-info.ts';
import type { JobStatus, OrphanedContainer, TaskStatus } from './status.ts';
import type { TaskFailure } from './task-failure.ts';

// Returns the status of a running job for tests. Fields that a test does not set have default values.

export function taskFailure(change: Partial<TaskFailure> = {}): TaskFailure {
  return { cause: { kind: 'program', exit: { code: 3, signal: null } }, cost: 'charged', node: null, lines: [], ...change };
}

export function taskStatus(change: Partial<TaskStatus> = {}): TaskStatus {
  return {
    role: 'worker',
    index: 0,
    state: 'running',
    rank: 0,
    generation: 1,
    attempts: 1,
    programStarts: 1,
    failures: 0,
    containerId: 'container_1_0001_01_000002',
    node: 'node1:8041',
    nodeHttp: 'node1:8042',
    step: 0,
    metrics: {},
    usage: null,
    silentMs: 10,
    exit: null,
    failure: null,
    ...change,
  };
}

export function orphanedContainer(change: Partial<OrphanedContainer> = {}): OrphanedContainer {
  return {
    role: 'worker',
    index: 1,
    containerId: 'container_1_0001_01_000003',
    node: 'node2:8041',
    attached: false,
    mayRunForMs: 24_000,
    ...change,
  };
}

export function jobStatus(change: Partial<JobStatus> = {}): JobStatus {
  return {
    id: 'application_1_0001',
    name: 'mnist',
    user: 'alice',
    queue: 'default',
    state: 'running',
    message: '',
    waitingMs: null,
    predecessorsEndInMs: null,
    failedTask: null,
    masterAttempt: 1,
    generations: 1,
    createdAt: 0,
    startedAt: 0,
    finishedAt: null,
    step: 0,
    metrics: {},
    checkpointStep: 0,
    checkpointUri: 'hdfs://nn/c',
    summaryUri: 'hdfs://nn/s',
    notices: [],
    failure: null,
    tensorboard: { state: 'off', message: '' },
    elastic: null,
    master: null,
    tasks: [taskStatus()],
    orphanedContainers: [],
    ...change,
  };
}

/** Returns a job whose ApplicationMaster has reported this status. */
export function reportedJob(change: Partial<JobStatus> = {}, facts: Partial<JobInfo> = {}): JobInfo {
  const status = jobStatus(change);
  return { ...jobInfo(status), createdAt: status.createdAt, ...facts };
}
