import { closing } from '../../../platform/async/closing.ts';
import type { JobSummary } from '../../listing/job-lister.ts';
import { inTime } from './in-time.ts';
import type { CompletionCandidate, Typed } from './typed-words.ts';

/** Candidates for a value, or `files` or `folders` if the shell itself should complete file or folder names. */
export type Suggestions = readonly CompletionCandidate[] | 'files' | 'folders';

/** Maximum number of jobs to suggest, newest first. */
const MOST_JOBS = 200;
const MOST_LOCAL_JOBS = 20;
const RUNNING_ONLY: ReadonlySet<string> = new Set(['kill', 'attach', 'top', 'feed']);

/** Returns the candidates for the value of an option or positional. */
export const VALUES: Readonly<Record<string, (typed: Typed, current: string) => Promise<Suggestions> | Suggestions>> = {
  application: jobs,
  task: tasks,
  queue: queues,
  code: errorCodes,
  key: keys,
  conf: () => 'files',
  to: () => 'files',
  folder: () => 'folders',
};

async function jobs({ command, values }: Typed): Promise<CompletionCandidate[]> {
  const ended = !RUNNING_ONLY.has(command.split(' ')[0] ?? '');
  const [cluster, local] = await Promise.all([clusterJobs(ended, values), localJobs(ended).catch(() => [])]);
  return [...cluster, ...local];
}

async function clusterJobs(ended: boolean, values: Typed['values']): Promise<CompletionCandidate[]> {
  const { listJobs } = await import('../../listing/list-jobs.ts');
  const list = (which: { readonly ended: boolean }) => listJobs({ ...which, limit: MOST_JOBS, ...clusterOf(values) });
  // Listing all jobs may take too long. In that case, suggest only running jobs.
  const [running, all] = await Promise.all([inTime(() => list({ ended: false }), []), ended ? inTime(() => list({ ended }), null) : null]);
  return (all ?? running).map(jobCandidate);
}

async function localJobs(ended: boolean): Promise<CompletionCandidate[]> {
  const { listLocalJobs } = await import('../../listing/local-jobs.ts');
  return (await listLocalJobs({ ended, limit: MOST_LOCAL_JOBS })).map(jobCandidate);
}

function jobCandidate({ id, name, phase }: JobSummary): CompletionCandidate {
  return { value: id, describe: `${name}, ${phase.toLowerCase()}` };
}

async function tasks({ positionals, values }: Typed): Promise<CompletionCandidate[]> {
  const { checkId } = await import('../../connections/connect-job.ts');
  const [id = ''] = positionals;
  const look = () => tasksOf(id, values);
  return checkId(id) === 'local' ? await look() : await inTime(look, []);
}

async function tasksOf(id: string, values: Typed['values']): Promise<CompletionCandidate[]> {
  const { connectJob } = await import('../../connections/connect-job.ts');
  return closing(await connectJob(id, clusterOf(values)), async (connection) => {
    const { status } = await connection.observe();
    const all = status?.tasks ?? [];
    const roles = [...new Set(all.map(({ role }) => role))].map((role) => ({
      value: role,
      describe: `all ${all.filter((task) => task.role === role).length} tasks of the role`,
    }));
    const single = all.map(({ role, index, state }) => ({ value: `${role}:${index}`, describe: state }));
    return [...roles, ...single, { value: 'master', describe: 'the ApplicationMaster' }];
  });
}

async function queues({ values }: Typed): Promise<CompletionCandidate[]> {
  const { withCluster } = await import('../../cluster/with-cluster.ts');
  const list = () => withCluster(clusterOf(values), (_cluster, resourceManager) => resourceManager.queues());
  return (await inTime(list, [])).map(({ name }) => ({ value: name, describe: '' }));
}

async function errorCodes(): Promise<CompletionCandidate[]> {
  const { ERROR_CODES } = await import('../../../platform/errors.ts');
  return Object.entries(ERROR_CODES).map(([value, { means }]) => ({ value, describe: means }));
}

/** Returns the keys that can complete the typed key. For `roles.w`, these are the keys below `roles`. */
async function keys(_: Typed, current: string): Promise<CompletionCandidate[]> {
  const { explainKey } = await import('../../../conf/explain-key.ts');
  const { jobJsonSchema } = await import('../../../conf/job-schema.ts');
  const above = current.split('.').slice(0, -1);
  const children = explainKey(jobJsonSchema(), above.join('.'))?.children ?? [];
  return children.map(({ key, description }) => ({ value: [...above, key].join('.'), describe: description }));
}

function clusterOf(values: Typed['values']): { resourceManager?: string; staging?: string } {
  const { 'resource-manager': resourceManager, staging } = values;
  return { ...(resourceManager !== undefined && { resourceManager }), ...(staging !== undefined && { staging }) };
}
