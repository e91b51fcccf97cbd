import path from 'node:path';

/** Where things of a local job lie; the local negotiator puts containers at the same places. */
export function localPaths(root: string, applicationId: string) {
  const job = path.join(root, 'jobs', applicationId);
  const containers = path.join(job, 'containers');
  return {
    job,
    history: path.join(root, 'history', applicationId),
    output: path.join(root, 'output', applicationId),
    /** host, ports and token of the ApplicationMaster; 0600. */
    masterAddress: path.join(job, 'am.json'),
    /** pid of the ApplicationMaster, written by whoever started it; behind it the pid of who starts another one, should it be killed. */
    masterPid: path.join(job, 'master.pid'),
    containers,
    /** Of an attempt of the ApplicationMaster, from 1. */
    masterContainer: (attempt: number): string =>
      `container_${applicationId.replace(/^local_/, '')}_${String(attempt).padStart(2, '0')}_000001`,
    work: (containerId: string) => path.join(containers, containerId, 'work'),
    logs: (containerId: string) => path.join(containers, containerId, 'logs'),
  };
}

export type LocalPaths = ReturnType<typeof localPaths>;

/** As often as YARN by default: an ApplicationMaster that is killed is started once more, and its job goes on. */
export const LOCAL_ATTEMPTS = 2;

export function isLocalId(applicationId: string): boolean {
  return /^local_\d+_\d{4,}$/.test(applicationId);
}
