import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, TonyError } from '../conf/errors.ts';
import { suggest } from '../conf/suggest.ts';
import type { JobConnection, LogSource, Observation } from './job-connection.ts';
import { type LogLine, LogReader } from './log-reader.ts';
import { isAway, Patience } from './patience.ts';
import { untilAborted } from './until-aborted.ts';

export type { LogLine } from './log-reader.ts';

export interface LogOptions {
  /** `worker`, `worker:1` or `master`; default every task. */
  readonly task?: string | undefined;
  /** Names of the files in each container's log folder; default stdout and stderr. */
  readonly files?: readonly string[];
  /** Only so many last lines of each file. */
  readonly tail?: number | undefined;
  /** Go on until the job is over. */
  readonly follow?: boolean;
  readonly intervalMs?: number;
  /** How long the cluster may be away before following is given up; default ten minutes. */
  readonly patienceMs?: number;
  /** Ends it; the generator then throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Told in a sentence what is waited for, that the cluster is away, that a task was started again. */
  readonly onNotice?: (notice: string) => void;
  /** Told the tasks whose lines come or may come, whenever there are others. */
  readonly onTasks?: (tasks: readonly string[]) => void;
}

/** Files that are read at the same time while a job is followed. */
const READS_AT_ONCE = 16;
/** What containers there have been is asked again when the tasks' have changed, and once in a while. */
const LIST_EVERY_MS = 5_000;
/** The same before the ApplicationMaster tells of tasks. */
const LIST_EARLY_EVERY_MS = 1_000;
/** Why a job waits may change with every container that comes. */
const WAIT_EVERY_MS = 10_000;

/**
 * What a job's programs wrote: live from the nodes, after the end from where YARN collected it; container after container, the oldest
 * first. Following, the lines of all tasks come as they are written, also those of a job that has yet to start, and of containers that
 * replace others.
 *
 * @throws TonyError APPLICATION_UNKNOWN, TASK_UNKNOWN, LOGS_UNAVAILABLE; RM_UNREACHABLE or HDFS_UNREACHABLE when the cluster does not answer
 * at first, or later for longer than `patienceMs`.
 */
export async function* jobLogs(connection: JobConnection, options: LogOptions = {}): AsyncGenerator<LogLine> {
  const { task, tail, follow = false, intervalMs = 500, patienceMs, signal, onNotice = () => undefined } = options;
  const readers = new Map<string, LogReader>();
  const seen = new Containers(connection);
  const patience = new Patience(patienceMs);
  const waiting = new Waiting(onNotice);
  const restarts = new Restarts(onNotice);
  const unreadable = new Set<string>();
  const retired = new Set<LogReader>();
  let names = '';
  for (let first = true; ; ) {
    signal?.throwIfAborted();
    try {
      // Looked at before reading: what is written after the job was seen to be over is nothing.
      const observation = await untilAborted(connection.observe(), signal);
      const over = !follow || observation.result !== null;
      const all = await untilAborted(seen.at(observation, over), signal);
      const { tasks, sources } = chosen(all, observation, task, !over);
      if (tasks.join() !== names) {
        names = tasks.join();
        options.onTasks?.(tasks);
      }
      if (!over) waiting.tell(connection.applicationId, observation, tasks, sources);
      restarts.tell(sources, first);
      for (const source of sources) {
        for (const file of filesOf(source, options.files)) {
          const key = `${source.containerId} ${file}`;
          const reader = readers.get(key) ?? new LogReader(source, file, first ? tail : undefined);
          reader.source = source;
          readers.set(key, reader);
        }
      }
      first = false;
      const reading = [...readers.values()].filter((reader) => over || !retired.has(reader));
      const failures = yield* read(reading, over, signal);
      // Whoever has a successor has ended, and was read to its end now.
      for (const reader of reading) if (!restarts.isNewest(reader.source)) retired.add(reader);
      // Not before: what was seen of the job says nothing of where its logs lie.
      const back = patience.answered();
      if (back !== null) onNotice(back);
      for (const { task: whose, error } of failures) {
        if (over) throw error;
        // The node may be just about to go; what it had is on HDFS later.
        if (!unreadable.has(whose)) onNotice(`${messageOf(error)} Trying again.`);
        unreadable.add(whose);
      }
      if (over) {
        if ([...readers.values()].some((reader) => reader.found)) return;
        throw nothing(connection.applicationId, task, observation);
      }
    } catch (error) {
      const away = patience.missed(error);
      if (away !== null) onNotice(away);
    }
    await delay(intervalMs, undefined, { ...(signal && { signal }) }).catch(() => undefined);
  }
}

function filesOf(source: LogSource, files: readonly string[] | undefined): readonly string[] {
  // The master runs no user's program: its own log is what there is.
  return source.task === 'master' ? ['tony.log', 'stderr'] : (files ?? ['stdout', 'stderr']);
}

/** The job's containers so far. To list them is much to ask of a cluster twice a second. */
class Containers {
  readonly #connection: JobConnection;
  #sources: readonly LogSource[] = [];
  #key: string | null = null;
  #at = Number.NEGATIVE_INFINITY;

  constructor(connection: JobConnection) {
    this.#connection = connection;
  }

  async at({ status }: Observation, over: boolean): Promise<readonly LogSource[]> {
    const key = status && [status.masterAttempt, ...status.tasks.flatMap(({ containerId, nodeHttp }) => [containerId, nodeHttp])].join();
    const now = performance.now();
    if (over || key !== this.#key || now - this.#at > (key === null ? LIST_EARLY_EVERY_MS : LIST_EVERY_MS)) {
      this.#sources = await this.#connection.logs();
      this.#key = key;
      this.#at = now;
    }
    return this.#sources;
  }
}

/** Says what a follower waits for while there is nothing to read. */
class Waiting {
  readonly #onNotice: (notice: string) => void;
  #phase = '';
  #notice = '';
  #at = Number.NEGATIVE_INFINITY;

  constructor(onNotice: (notice: string) => void) {
    this.#onNotice = onNotice;
  }

  tell(applicationId: string, { phase, waiting, status }: Observation, tasks: readonly string[], sources: readonly LogSource[]): void {
    if (sources.length > 0) return;
    const state = status?.state ?? phase;
    const reason = status === null ? waiting : status.message;
    const notice =
      status === null
        ? `${applicationId} has not started yet: ${phase}${reason === '' ? '' : `: ${reason}`}`
        : `Waiting for ${tasks.length === 1 ? `a container for ${tasks[0]}` : 'containers'}: ${state}${reason === '' ? '' : `: ${reason}`}`;
    const now = performance.now();
    if (notice === this.#notice || (state === this.#phase && now - this.#at < WAIT_EVERY_MS)) return;
    this.#notice = notice;
    this.#phase = state;
    this.#at = now;
    this.#onNotice(notice);
  }
}

/** Knows which container each task has now, and says when that is another one. */
class Restarts {
  readonly #onNotice: (notice: string) => void;
  readonly #known = new Set<string>();
  #newest: ReadonlyMap<string, string> = new Map();

  constructor(onNotice: (notice: string) => void) {
    this.#onNotice = onNotice;
  }

  /** `sources`: of each task the oldest first. */
  tell(sources: readonly LogSource[], first: boolean): void {
    const newest = new Map(sources.map(({ task, containerId }) => [task, containerId]));
    for (const [task, containerId] of newest) {
      // What is listed late may be older.
      if (!first && this.#newest.has(task) && !this.#known.has(containerId)) this.#onNotice(`${task} is started again, in ${containerId}.`);
    }
    for (const { containerId } of sources) this.#known.add(containerId);
    this.#newest = newest;
  }

  isNewest({ task, containerId }: LogSource): boolean {
    return this.#newest.get(task) === containerId;
  }
}

interface Failure {
  readonly task: string;
  readonly error: unknown;
}

/**
 * All that the files hold by now: following, as it arrives from wherever it lies; at the end, one file after the other. Answers which
 * files could not be read though the others could.
 */
async function* read(
  readers: readonly LogReader[],
  over: boolean,
  signal: AbortSignal | undefined,
): AsyncGenerator<LogLine, readonly Failure[]> {
  const most = over ? 1 : READS_AT_ONCE;
  const queue = [...readers];
  const busy = new Map<LogReader, Promise<() => Awaited<ReturnType<LogReader['next']>>>>();
  const failures: Failure[] = [];
  let broken: { readonly error: unknown } | null = null;
  while (busy.size > 0 || (queue.length > 0 && broken === null)) {
    for (let next: LogReader | undefined; broken === null && busy.size < most; ) {
      next = queue.shift();
      if (next === undefined) break;
      busy.set(next, settled(next.next(over)));
    }
    const { reader, outcome } = await untilAborted(
      Promise.race([...busy].map(async ([each, piece]) => ({ reader: each, outcome: await piece }))),
      signal,
    );
    busy.delete(reader);
    try {
      const { lines, caughtUp } = outcome();
      yield* lines;
      if (!caughtUp) over ? queue.unshift(reader) : queue.push(reader);
    } catch (error) {
      // What is under way elsewhere is still taken in: its reader does not ask for it again.
      if (error instanceof TonyError && error.code === 'LOGS_UNAVAILABLE') failures.push({ task: reader.source.task, error });
      else if (broken === null || isAway(broken.error)) broken = { error };
    }
  }
  if (broken !== null) throw broken.error;
  return failures;
}

/** Never rejects: gives a function that answers or throws as the work did. */
async function settled<T>(work: Promise<T>): Promise<() => T> {
  try {
    const value = await work;
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

interface Chosen {
  /** Names, in the job's order. */
  readonly tasks: readonly string[];
  readonly sources: readonly LogSource[];
}

function chosen(sources: readonly LogSource[], observation: Observation, task: string | undefined, mayCome: boolean): Chosen {
  const planned = (observation.status?.tasks ?? []).map(({ role, index }) => `${role}:${index}`);
  const programs = [...new Set([...planned, ...sources.map((source) => source.task).filter((name) => name !== 'master')])];
  if (task === undefined) {
    const ofPrograms = sources.filter((source) => source.task !== 'master');
    // A job whose programs never ran has nothing else to show.
    return ofPrograms.length > 0 || mayCome ? { tasks: programs, sources: ofPrograms } : { tasks: ['master'], sources };
  }
  const wanted = (name: string): boolean => name === task || name.split(':')[0] === task;
  const all = [...programs, 'master'];
  const tasks = all.filter(wanted);
  if (tasks.length > 0) return { tasks, sources: sources.filter((source) => wanted(source.task)) };
  if (mayCome && (planned.length === 0 || isElastic(task, observation))) return { tasks: [task], sources: [] };
  const meant = suggest(task, [...all, ...all.map((name) => name.split(':')[0] ?? name)]);
  throw new TonyError('TASK_UNKNOWN', `The job has no task ${task}${meant === undefined ? '' : `; did you mean ${meant}?`}`, {
    hint: programs.length === 0 ? 'No container has been started.' : `It has: ${programs.join(', ')}.`,
  });
}

/** Whether the task may come when there is room for it. */
function isElastic(task: string, { status }: Observation): boolean {
  const [role, index] = task.split(':');
  return status?.elastic?.role === role && Number(index) < (status?.elastic?.most ?? 0);
}

function nothing(applicationId: string, task: string | undefined, { result }: Observation): TonyError {
  const hint =
    result === null
      ? 'With -f the command waits for them.'
      : `YARN collects them some seconds after the end of a job; try again then. tony-ts status ${applicationId} says how it ended.`;
  return new TonyError('LOGS_UNAVAILABLE', `There are no logs of ${task ?? applicationId} yet.`, { hint });
}
