import { readdir, readFile } from 'node:fs/promises';
import type { Candidate, Typed } from './typed-words.ts';

/** What a value is chosen from: candidates, or the names of files or folders, which the shell itself knows best. */
export type Values = readonly Candidate[] | 'files' | 'folders';

/** Most recent ones that are offered. */
const MOST_JOBS = 200;
const MOST_LOCAL_JOBS = 20;
/** To these a job that has ended is no use. */
const RUNNING_ONLY: ReadonlySet<string> = new Set(['kill', 'attach', 'top', 'feed']);

/** By the name of an option or positional. */
export const VALUES: Readonly<Record<string, (typed: Typed, current: string) => Promise<Values> | Values>> = {
  application: jobs,
  task: tasks,
  queue: queues,
  code: errorCodes,
  key: keys,
  conf: () => 'files',
  to: () => 'files',
  folder: () => 'folders',
};

/** Yours, the newest first. */
async function jobs({ command, values }: Typed): Promise<Candidate[]> {
  const ended = !RUNNING_ONLY.has(command.split(' ')[0] ?? '');
  const [cluster, local] = await Promise.all([clusterJobs(ended, values).catch(() => []), localJobs(ended).catch(() => [])]);
  return [...cluster, ...local];
}

async function clusterJobs(ended: boolean, values: Typed['values']): Promise<Candidate[]> {
  const { listJobs } = await import('../list-jobs.ts');
  const found = await listJobs({ ended, ...clusterOf(values) });
  return found.slice(0, MOST_JOBS).map(({ id, name, state, finalStatus }) => {
    return { value: id, describe: `${name}, ${(state === 'FINISHED' ? finalStatus : state).toLowerCase()}` };
  });
}

async function localJobs(ended: boolean): Promise<Candidate[]> {
  const { localRoot } = await import('../local-folder.ts');
  const { isLocalId, localPaths } = await import('../local-layout.ts');
  const { parseJobStatus } = await import('../job-status.ts');
  const path = await import('node:path');
  const root = localRoot();
  const ids = [...new Set([...(await names(path.join(root, 'jobs'))), ...(await names(path.join(root, 'history')))])];
  const newest = ids.filter(isLocalId).sort().reverse().slice(0, MOST_LOCAL_JOBS);
  const found = newest.map(async (id): Promise<Candidate[]> => {
    const paths = localPaths(root, id);
    const final = parseJobStatus(await text(path.join(paths.history, 'final.json')), id);
    if (final !== null) return ended ? [{ value: id, describe: `${final.name}, ${final.state.toLowerCase()}` }] : [];
    const name = /"name":\s*"([^"\\]*)"/.exec(await text(path.join(paths.job, 'job.json')))?.[1];
    return name === undefined ? [] : [{ value: id, describe: name }];
  });
  return (await Promise.all(found)).flat();
}

async function tasks({ positionals, values }: Typed): Promise<Candidate[]> {
  const { connectJob } = await import('../connect-job.ts');
  const connection = await connectJob(positionals[0] ?? '', clusterOf(values));
  try {
    const { status } = await connection.observe();
    const all = status?.tasks ?? [];
    const roles = [...new Set(all.map(({ role }) => role))].map((role) => ({
      value: role,
      describe: `all ${all.filter((task) => task.role === role).length} of the role`,
    }));
    const single = all.map(({ role, index, state }) => ({ value: `${role}:${index}`, describe: state }));
    return [...roles, ...single, { value: 'master', describe: 'the ApplicationMaster' }];
  } finally {
    connection.close();
  }
}

async function queues({ values }: Typed): Promise<Candidate[]> {
  const { openCluster } = await import('../cluster.ts');
  const { ResourceManager } = await import('../../hadoop/resource-manager.ts');
  const cluster = await openCluster(clusterOf(values));
  const resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
  try {
    return (await resourceManager.queues()).map(({ name }) => ({ value: name, describe: '' }));
  } finally {
    resourceManager.close();
    cluster.close();
  }
}

async function errorCodes(): Promise<Candidate[]> {
  const { ERROR_CODES } = await import('../../conf/errors.ts');
  return Object.entries(ERROR_CODES).map(([value, { hint }]) => ({ value, describe: hint }));
}

/** Those at the level of what is being typed: `roles.w` is below `roles`. */
async function keys(_: Typed, current: string): Promise<Candidate[]> {
  const { explainKey } = await import('../../conf/explain-key.ts');
  const { jobJsonSchema } = await import('../../conf/job-schema.ts');
  const above = current.split('.').slice(0, -1);
  const children = explainKey(jobJsonSchema(), above.join('.'))?.children ?? [];
  return children.map(({ key, description }) => ({ value: [...above, key].join('.'), describe: description }));
}

function clusterOf(values: Typed['values']): { resourceManager?: string; staging?: string } {
  const { 'resource-manager': resourceManager, staging } = values;
  return { ...(resourceManager !== undefined && { resourceManager }), ...(staging !== undefined && { staging }) };
}

async function names(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

async function text(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '');
}
