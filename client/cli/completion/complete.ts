import type { ListedJob } from '../../../conf/status/job-info.ts';
import { parseDuration } from '../../../conf/values/units.ts';
import { closing } from '../../../platform/async/closing.ts';
import { withTimeout } from '../../../platform/async/deadline.ts';
import { harmless } from '../../terminal/terminal.ts';
import type { Command, Option, Positional } from '../command/command.ts';
import { readWords } from '../command/read-words.ts';

interface CompletionCandidate {
  readonly value: string;
  readonly describe: string;
}

/** Words or value to complete at the cursor. */
export type Wanted =
  | { readonly kind: 'words'; readonly candidates: readonly CompletionCandidate[] }
  | ({ readonly kind: 'value'; readonly name: string; readonly prefix: string } & Typed);

/** Words that the user typed before the cursor. */
interface Typed {
  /** Command path, such as `history show`. */
  readonly command: string;
  readonly positionals: readonly string[];
  readonly values: Readonly<Record<string, string>>;
}

/**
 * Determines what to complete at the cursor: a command or option, or the value of an option or positional.
 * @param words words up to the cursor, without `tony-ts`; the last word is incomplete or empty
 */
export function wantedAt(root: Command, words: readonly string[]): Wanted {
  const current = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const { path, runs, known, given, positionals, lacksValue } = readWords(root, before);
  const values = Object.fromEntries(
    [...given].flatMap(([name, value]) => (typeof value === 'object' ? [[name, value.at(-1) ?? ''] as const] : [])),
  );
  const typed: Typed = {
    command: path
      .slice(1)
      .map(({ name }) => name)
      .join(' '),
    positionals,
    values,
  };
  const onlyPositionals = before.includes('--');
  if (lacksValue !== null && !onlyPositionals) {
    return placeOf(lacksValue, '', typed);
  }
  const used = new Set(given.keys());
  if (!onlyPositionals && current.startsWith('-')) {
    const equals = current.indexOf('=');
    if (equals < 0) {
      return { kind: 'words', candidates: optionWords(known, used, current) };
    }
    const option = known.find(({ name, isFlag }) => `--${name}` === current.slice(0, equals) && !isFlag);
    return option === undefined ? { kind: 'words', candidates: [] } : placeOf(option, current.slice(0, equals + 1), typed);
  }
  const commands = path.at(-1)?.commands ?? [];
  if (positionals.length === 0 && commands.length > 0) {
    return { kind: 'words', candidates: commands.map(({ name, describe }) => ({ value: name, describe })) };
  }
  const positional = runs.positionals.filter(({ followsDashes }) => !followsDashes)[positionals.length];
  if (positional !== undefined) {
    return placeOf(positional, '', typed);
  }
  return { kind: 'words', candidates: onlyPositionals ? [] : optionWords(known, used, '--') };
}

function placeOf({ name, choices }: Option | Positional, prefix: string, typed: Typed): Wanted {
  if (choices.length > 0) {
    return { kind: 'words', candidates: choices.map((value) => ({ value: `${prefix}${value}`, describe: '' })) };
  }
  return { kind: 'value', name, prefix, ...typed };
}

function optionWords(options: readonly Option[], used: ReadonlySet<string>, current: string): CompletionCandidate[] {
  return options
    .filter(({ name, isList }) => isList || !used.has(name))
    .flatMap(({ name, aliases, describe, on }) => {
      const short = current.startsWith('--') ? [] : aliases.filter((alias) => alias.length === 1).map((alias) => `-${alias}`);
      return [...short, on ? `--no-${name}` : `--${name}`].map((value) => ({ value, describe }));
    });
}

/** Time limit for the cluster's response, in ms since this process started. Kept short because the user is waiting for the completion. */
const ANSWER_MS = 450;
/** Minimum time (ms) to wait for the cluster's response. On a busy machine, process startup may use up most of `ANSWER_MS`. */
const LEAST_ANSWER_MS = 300;

/**
 * Returns the result of `ask`, or `instead` if `ask` fails or takes too long. The user of a slow cluster extends the time limit by the
 * environment variable TONY_COMPLETION_TIMEOUT, for example `2s`. A value that is not a duration has no effect, because an error message
 * would garble the user's prompt.
 */
export async function inTime<T>(ask: () => Promise<T>, instead: T): Promise<T> {
  try {
    return await withTimeout(ask(), limitMs(), () => instead);
  } catch {
    return instead;
  }
}

function limitMs(): number {
  return parseDuration(process.env.TONY_COMPLETION_TIMEOUT ?? '') ?? Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now());
}

/** Candidates for a value, or `files` or `folders` if the shell itself should complete file or folder names. */
type Suggestions = readonly CompletionCandidate[] | 'files' | 'folders';

/** Maximum number of jobs to suggest, newest first. */
const MOST_JOBS = 200;
const MOST_LOCAL_JOBS = 20;
const RUNNING_ONLY: ReadonlySet<string> = new Set(['kill', 'attach', 'top', 'feed']);

/** Returns the candidates for the value of an option or positional. */
export const VALUES: Readonly<Record<string, (typed: Typed, current: string) => Promise<Suggestions> | Suggestions>> = {
  job: jobs,
  task: tasks,
  queue: queues,
  topic: topics,
  'job-file': () => 'files',
  conf: () => 'files',
  to: () => 'files',
  folder: () => 'folders',
};

async function jobs({ command, values }: Typed): Promise<CompletionCandidate[]> {
  const ended = !RUNNING_ONLY.has(command.split(' ')[0] ?? '');
  // Local jobs come first, because reading them at the same time would use up the time limit for the cluster's response.
  const local = await localJobs(ended).catch(() => []);
  return [...(await clusterJobs(ended, values)), ...local];
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

function jobCandidate({ id, name, state }: ListedJob): CompletionCandidate {
  return { value: id, describe: `${name}, ${state}` };
}

async function tasks({ positionals, values }: Typed): Promise<CompletionCandidate[]> {
  const { checkId } = await import('../../connections/check-id.ts');
  const [id = ''] = positionals;
  const look = () => tasksOf(id, values);
  return checkId(id) === 'local' ? await look() : await inTime(look, []);
}

async function tasksOf(id: string, values: Typed['values']): Promise<CompletionCandidate[]> {
  const { connectJob } = await import('../../connections/connect-job.ts');
  return closing(await connectJob(id, clusterOf(values)), async (connection) => {
    const { tasks: all } = await connection.observe();
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

/** Returns keys, or error codes if the typed word is in upper case. */
async function topics(typed: Typed, current: string): Promise<CompletionCandidate[]> {
  return /^[A-Z]/.test(current) ? errorCodes() : keys(typed, current);
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

const LONGEST_DESCRIPTION = 60;

/**
 * Returns the lines that a shell's completion function reads. The first line is `words`, `files` or `folders`. After `words`, each line
 * contains a candidate, a tab and a description. Never throws, because an error message would garble the user's prompt.
 * @param words words up to the cursor, without `tony-ts`
 */
export async function completionLines(root: Command, words: readonly string[]): Promise<string[]> {
  const wanted = wantedAt(root, words);
  if (wanted.kind === 'words') {
    return ['words', ...wanted.candidates.filter(isPlain).map(candidateLine)];
  }
  const current = (words.at(-1) ?? '').slice(wanted.prefix.length);
  const values = await valuesOf(wanted.name, wanted, current);
  if (typeof values === 'string') {
    return [values];
  }
  return ['words', ...values.filter(isPlain).map(({ value, describe }) => candidateLine({ value: `${wanted.prefix}${value}`, describe }))];
}

async function valuesOf(name: string, typed: Typed, current: string): Promise<Suggestions> {
  const find = Object.hasOwn(VALUES, name) ? VALUES[name] : undefined;
  try {
    return (await find?.(typed, current)) ?? [];
  } catch {
    return [];
  }
}

/** Returns true if a candidate does not contain any characters that are special to shells. bash inserts candidates without quoting them. */
function isPlain({ value }: CompletionCandidate): boolean {
  return /^[\w.:@=%+,/-]*$/.test(value);
}

function candidateLine({ value, describe }: CompletionCandidate): string {
  const brief = harmless(describe).replace(/\s+/g, ' ').trim();
  const cut = brief.length > LONGEST_DESCRIPTION ? `${brief.slice(0, LONGEST_DESCRIPTION - 1)}…` : brief;
  return cut === '' ? value : `${value}\t${cut}`;
}
