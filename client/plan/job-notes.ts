import type { Job } from '../../conf/job.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import type { JobKeytab } from '../job/job-keytab.ts';

const ALLOWED_RUNTIMES = 'yarn.nodemanager.runtime.linux.allowed-runtimes';
const MOST_NAMED = 5;

export interface NotedParts {
  /** Files that `listSource` withholds because their names suggest that they contain secrets. */
  readonly withheld: readonly string[];
  /** Hadoop configuration, or null for a local job. */
  readonly configuration: HadoopConfiguration | null;
  /** The job's keytab. Null for a local job, or on a cluster without Kerberos. */
  readonly keytab: Pick<JobKeytab, 'isExposed'> | null;
}

/** Returns notes about parts of a valid job that may not work as the user expects. */
export function jobNotes(job: Pick<Job, 'master' | 'roles' | 'env' | 'kerberos'>, parts: NotedParts): string[] {
  return [withheldNote(parts.withheld), pathNote(job), dockerNote(job, parts.configuration), keytabNote(job, parts.keytab)].filter(
    (note) => note !== null,
  );
}

export function withheldNote(withheld: readonly string[]): string | null {
  const [first] = withheld;
  return first === undefined
    ? null
    : `Not uploaded because the names suggest that these files contain secrets: ${firstNames(withheld, MOST_NAMED)}. To include ${first}, add the line !${first} to .tonyignore.`;
}

/** Warns if a job sets PATH, because the shell then finds commands only in the folders on the new PATH. */
function pathNote({ env, roles }: Pick<Job, 'env' | 'roles'>): string | null {
  const places = [
    ...(Object.hasOwn(env, 'PATH') ? ['env'] : []),
    ...roles.filter((role) => Object.hasOwn(role.env, 'PATH')).map(({ name }) => `roles.${name}.env`),
  ];
  return places.length === 0
    ? null
    : `${places.join(' and ')} ${places.length === 1 ? 'replaces' : 'replace'} the whole PATH. The shell finds commands such as node only in the folders on the new PATH.`;
}

/** Warns if a job sets `docker`. A node whose container executor does not support Docker ignores the image without an error. */
function dockerNote({ master, roles }: Pick<Job, 'master' | 'roles'>, configuration: HadoopConfiguration | null): string | null {
  const names = [
    ...(master.docker === null ? [] : ['the ApplicationMaster']),
    ...roles.filter(({ docker }) => docker !== null).map(({ name }) => name),
  ];
  if (names.length === 0 || configuration?.list(ALLOWED_RUNTIMES).includes('docker')) {
    return null;
  }
  const where = `${new Intl.ListFormat('en').format(names)} ${names.length === 1 ? 'sets' : 'set'} docker`;
  return configuration === null
    ? `${where}; a local job runs directly on this machine instead.`
    : `${where}, but ${ALLOWED_RUNTIMES} in yarn-site.xml does not list docker: nodes with this setting ignore the image.`;
}

function keytabNote({ kerberos }: Pick<Job, 'kerberos'>, keytab: NotedParts['keytab']): string | null {
  if (kerberos === null) {
    return null;
  }
  if (keytab === null) {
    return 'kerberos has no effect here: without Kerberos, a job needs no keytab, and the file is not uploaded.';
  }
  return keytab.isExposed ? `Other users of this machine can read ${kerberos.keytab}: run chmod 600 ${kerberos.keytab}.` : null;
}
