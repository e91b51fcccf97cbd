import type { Application } from './resource-manager-answers.ts';

/** A running application of alice with three containers. */
export function yarnApplication(change: Partial<Application> = {}): Application {
  return {
    id: 'application_1795225023264_0001',
    name: 'mnist',
    user: 'alice',
    queue: 'root.default',
    type: 'TONY',
    tags: [],
    state: 'RUNNING',
    finalStatus: 'UNDEFINED',
    progress: 0,
    trackingUrl: '',
    diagnostics: '',
    startedAt: 1000,
    finishedAt: null,
    amContainerLogs: null,
    amNodeHttp: null,
    allocatedMb: 0,
    allocatedVcores: 0,
    runningContainers: 3,
    used: { 'memory-mb': 6144, vcores: 3 },
    usedByMaster: {},
    nodeLabel: null,
    logAggregation: null,
    priority: 0,
    ...change,
  };
}
