import { APPLICATION_TYPE } from '../../conf/job.ts';
import { type JobInfo, queueBelowRoot, unreportedJob, yarnReport } from '../../conf/status/job-info.ts';
import { isEndState, isTaskOver, type JobStatus } from '../../conf/status/status.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';
import { jobStateOf } from './yarn-diagnostics.ts';

/** Converts a job status to a YARN application report, for local jobs and for jobs that the ResourceManager no longer lists. */
export function applicationOf({ id, name, user, queue, state, message, createdAt, finishedAt, tasks }: JobStatus): Application {
  const over = isEndState(state);
  return {
    id,
    name,
    user,
    queue,
    type: APPLICATION_TYPE,
    tags: [],
    state: over ? 'FINISHED' : 'RUNNING',
    finalStatus: over ? state : 'UNDEFINED',
    progress: 0,
    trackingUrl: '',
    diagnostics: message,
    startedAt: createdAt,
    finishedAt,
    amContainerLogs: null,
    amNodeHttp: null,
    allocatedMb: 0,
    allocatedVcores: 0,
    runningContainers: over ? 0 : 1 + tasks.filter(({ state, containerId }) => containerId !== null && !isTaskOver(state)).length,
    used: {},
    usedByMaster: {},
    nodeLabel: null,
    logAggregation: null,
    priority: 0,
  };
}

/** Converts a YARN application report to a job, for jobs whose ApplicationMasters have not reported. */
export function unreportedJobOf(application: Application, known: Partial<JobInfo> = {}): JobInfo {
  const { id, name, user, queue, startedAt, finishedAt } = application;
  // If the job's view ACL denies access, YARN reports 0 as the start time.
  const createdAt = startedAt || null;
  return unreportedJob({
    id,
    name,
    user,
    queue: queueBelowRoot(queue),
    state: jobStateOf(application),
    createdAt,
    finishedAt,
    yarn: yarnReport(application),
    ...known,
  });
}
