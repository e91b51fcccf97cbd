import path from 'node:path';

/** Where things of a local job lie; the local negotiator puts containers at the same places. */
export function localPaths(root: string, applicationId: string) {
  const job = path.join(root, 'jobs', applicationId);
  const masterContainer = `container_${applicationId.replace(/^local_/, '')}_01_000001`;
  const containers = path.join(job, 'containers');
  return {
    job,
    history: path.join(root, 'history', applicationId),
    /** host, ports and token of the ApplicationMaster; 0600. */
    masterAddress: path.join(job, 'am.json'),
    /** pid of the ApplicationMaster, written by whoever started it. */
    masterPid: path.join(job, 'master.pid'),
    containers,
    masterContainer,
    work: (containerId: string) => path.join(containers, containerId, 'work'),
    logs: (containerId: string) => path.join(containers, containerId, 'logs'),
  };
}

export function isLocalId(applicationId: string): boolean {
  return /^local_\d+_\d{4,}$/.test(applicationId);
}
