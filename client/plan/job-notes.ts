import type { Job } from '../../conf/job.ts';
import { formatBytes } from '../../conf/values/quantities.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import type { JobKeytab } from '../job/job-keytab.ts';
import type { FolderListing } from '../job/source-folder.ts';
import { programNotes } from './program-files.ts';

const ALLOWED_RUNTIMES = 'yarn.nodemanager.runtime.linux.allowed-runtimes';
const MOST_NAMED = 5;
const LARGE_SOURCE_BYTES = 100 * 1000 ** 2;

export interface NotedParts {
  /** The job's source folder, or null if it has none. */
  readonly source: Pick<FolderListing, 'entries' | 'withheld'> | null;
  /** Hadoop configuration, or null for a local job. */
  readonly configuration: HadoopConfiguration | null;
  /** The job's keytab. Null for a local job, or on a cluster without Kerberos. */
  readonly keytab: Pick<JobKeytab, 'isExposed'> | null;
  /** The reason why the job's keytab could not be used with Kerberos, or null if there is none. See `keytabProblem`. */
  readonly keytabProblem: string | null;
}

/** Returns notes about parts of a valid job that may not work as the user expects. */
export function jobNotes(job: Pick<Job, 'master' | 'roles' | 'env' | 'files' | 'kerberos'>, parts: NotedParts): string[] {
  return [
    ...programNotes(job, parts.source),
    ...sourceNotes(parts.source),
    pathNote(job),
    gpuNote(job),
    dockerNote(job, parts.configuration),
    keytabNote(job, parts),
  ].filter((note) => note !== null);
}

/** Returns notes about the files that tony-ts uploads from the source folder, or leaves out. */
function sourceNotes(source: NotedParts['source']): string[] {
  return source === null ? [] : [withheldNote(source.withheld), sizeNote(source.entries)].filter((note) => note !== null);
}

/** Warns about a large source folder, which usually contains input data or old results. Names the largest entry at its top level. */
function sizeNote(entries: FolderListing['entries']): string | null {
  const sizes = new Map<string, number>();
  let bytes = 0;
  for (const entry of entries) {
    if (entry.type === 'file') {
      const name = entry.path.replace(/\/.*/, '/');
      sizes.set(name, (sizes.get(name) ?? 0) + entry.size);
      bytes += entry.size;
    }
  }
  if (bytes < LARGE_SOURCE_BYTES) {
    return null;
  }
  const [name, size] = [...sizes].reduce((largest, each) => (each[1] > largest[1] ? each : largest));
  return `The source folder contains ${formatBytes(bytes)}, of which ${formatBytes(size)} are in ${name}. Each task copies this folder when it starts. To exclude ${name}, add the line /${name} to .tonyignore. To pass input data to programs, use data in job.yaml.`;
}

function withheldNote(withheld: readonly string[]): string | null {
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

/** Warns about a resource type such as `nvidia.com/gpu`, which means the GPUs of a node in Kubernetes, but on YARN only those of a device plugin. */
function gpuNote({ roles }: Pick<Job, 'roles'>): string | null {
  const requested = roles.flatMap(({ name, resources }) => Object.keys(resources.other).map((type) => ({ name, type })));
  const gpu = requested.find(({ type }) => /\/gpus?$/i.test(type));
  return gpu === undefined
    ? null
    : `roles.${gpu.name} requests ${gpu.type}, which is the name of GPUs in Kubernetes. To request YARN's GPUs (yarn.io/gpu), and to assign them to the program, write \`gpus\` instead.`;
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

function keytabNote({ kerberos }: Pick<Job, 'kerberos'>, { keytab, keytabProblem }: NotedParts): string | null {
  if (kerberos === null) {
    return null;
  }
  if (keytab === null) {
    const note = 'kerberos has no effect here: without Kerberos, a job needs no keytab, and the file is not uploaded.';
    return keytabProblem === null ? note : `${note} A cluster with Kerberos would need it: ${keytabProblem}`;
  }
  return keytab.isExposed ? `Other users of this machine can read ${kerberos.keytab}: run chmod 600 ${kerberos.keytab}.` : null;
}
