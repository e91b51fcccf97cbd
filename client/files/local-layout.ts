import path from 'node:path';

/** Returns the paths of a local job's files. LocalNegotiator in the ApplicationMaster uses the same container paths. */
export function localPaths(root: string, jobId: string) {
  const job = path.join(root, 'jobs', jobId);
  const containers = path.join(job, 'containers');
  const masterContainer = (attempt: number): string =>
    `container_${jobId.replace(/^local_/, '')}_${String(attempt).padStart(2, '0')}_000001`;
  return {
    job,
    history: path.join(root, 'history', jobId),
    output: path.join(root, 'output', jobId),
    /** Host, ports and token of the ApplicationMaster. The file has mode 0600. */
    masterAddress: path.join(job, 'am.json'),
    /** Process IDs of the ApplicationMaster and of the process that starts the next attempt. The last attempt has no such process. */
    masterPid: path.join(job, 'master.pid'),
    containers,
    /** Returns the container ID of an ApplicationMaster attempt. Attempts are numbered from 1. */
    masterContainer,
    /** Container IDs of all possible attempts. */
    masterContainers: Array.from({ length: LOCAL_ATTEMPTS }, (_, at) => masterContainer(at + 1)),
    work: (containerId: string) => path.join(containers, containerId, 'work'),
    logs: (containerId: string) => path.join(containers, containerId, 'logs'),
  };
}

export type LocalPaths = ReturnType<typeof localPaths>;

/** Maximum number of ApplicationMaster attempts, as in YARN's default configuration. */
export const LOCAL_ATTEMPTS = 2;

export function isLocalId(jobId: string): boolean {
  return /^local_\d+_\d{4,}$/.test(jobId);
}
