import type { Job } from '../../conf/job.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';

const ALLOWED_RUNTIMES = 'yarn.nodemanager.runtime.linux.allowed-runtimes';

/**
 * Returns a note if a container with `docker` may run without its image. This happens silently on nodes whose container executor does not
 * support Docker, or is not configured for it.
 * @param configuration Hadoop configuration; null for a local job
 */
export function dockerNotes({ master, roles }: Pick<Job, 'master' | 'roles'>, configuration: HadoopConfiguration | null): string[] {
  const names = [
    ...(master.docker === null ? [] : ['the ApplicationMaster']),
    ...roles.filter(({ docker }) => docker !== null).map(({ name }) => name),
  ];
  if (names.length === 0) {
    return [];
  }
  const where = `${names.join(', ')} ${names.length === 1 ? 'sets' : 'set'} docker`;
  if (configuration === null) {
    return [`${where}; a local job runs directly on this machine instead.`];
  }
  return configuration.list(ALLOWED_RUNTIMES).includes('docker')
    ? []
    : [`${where}, but ${ALLOWED_RUNTIMES} in yarn-site.xml does not list docker: nodes with this setting ignore the image.`];
}
