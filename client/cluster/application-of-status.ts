import { APPLICATION_TYPE } from '../../conf/job.ts';
import { isEndState, isTaskOver, type JobStatus } from '../../conf/status/status.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';

/** Converts a job status to a YARN application report, for local jobs and for jobs that the ResourceManager no longer lists. */
export function applicationOf({
  applicationId,
  name,
  user,
  queue,
  state,
  message,
  submittedAt,
  finishedAt,
  tasks,
}: JobStatus): Application {
  const over = isEndState(state);
  return {
    id: applicationId,
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
    startedAt: submittedAt,
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
