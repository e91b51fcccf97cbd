import { isOver, isReported, type JobInfo } from '../../../conf/status/job-info.ts';
import { jobMessage } from '../../../conf/status/job-message.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { untilAborted } from '../../../platform/async/until-aborted.ts';
import { checkOptions, type OptionNames } from '../../../platform/check-options.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { suggest } from '../../../platform/text/suggest.ts';
import { silenceText } from '../../cluster/master-silence.ts';
import { isAway, OutageTolerance } from '../../cluster/outage-tolerance.ts';
import type { JobConnection, LogSource } from '../job-connection.ts';
import { type LogLine, LogReader } from './log-reader.ts';

export type { LogLine } from './log-reader.ts';

export interface LogOptions {
  /** Which logs to read: a role such as `worker`, a task such as `worker:1`, or `master`. Default: all tasks. */
  readonly task?: string | undefined;
  /** Names of the files to read from each container's log folder. Default: stdout and stderr. */
  readonly files?: readonly string[];
  /** Number of lines to read from the end of each file. Default: all lines. */
  readonly tail?: number | undefined;
  /** Whether to follow the logs until the job ends. */
  readonly follow?: boolean;
  readonly intervalMs?: number;
  /** Maximum time (ms) that the cluster may be unreachable. Default: ten minutes. */
  readonly maxWaitMs?: number;
  /** Signal that stops the generator. The generator then throws the abort reason. */
  readonly signal?: AbortSignal;
  /** Receives notices, for example why the job is waiting, or that a task was restarted. */
  readonly onNotice?: (notice: string) => void;
  /** Receives the names of the selected tasks whenever they change, including tasks that have not started yet. */
  readonly onTasks?: (tasks: readonly string[]) => void;
}

export type LoggedJob = Pick<JobConnection, 'id' | 'observe' | 'logs'>;

const LOG_OPTIONS: OptionNames<LogOptions> = {
  task: true,
  files: true,
  tail: true,
  follow: true,
  intervalMs: true,
  maxWaitMs: true,
  signal: true,
  onNotice: true,
  onTasks: true,
};

const READS_AT_ONCE = 16;
/** Interval (ms) at which the container list is refreshed. A new container for a task triggers an additional refresh. */
const LIST_EVERY_MS = 5_000;
/** Interval (ms) at which the container list is refreshed before the ApplicationMaster first reports the job's tasks. */
const LIST_EARLY_EVERY_MS = 1_000;
/** Minimum interval (ms) between notices about a job that keeps waiting. The reason for waiting may change whenever a container starts. */
const WAIT_EVERY_MS = 10_000;

/**
 * Yields a job's output. Reads from the nodes while the job runs, and from YARN's aggregated logs afterwards. Without `follow`, yields one
 * container after another, oldest first. With `follow`, yields the lines from all tasks as they are written, including those from
 * containers that start later.
 * @throws TonyError JOB_NOT_FOUND, TASK_NOT_FOUND, LOGS_UNAVAILABLE, ACCESS_DENIED; RM_UNREACHABLE or HDFS_UNREACHABLE if the first request fails, or
 *   if the cluster is unreachable for longer than `maxWaitMs`
 */
export async function* jobLogs(connection: LoggedJob, options: LogOptions = {}): AsyncGenerator<LogLine> {
  checkOptions('jobLogs', options, LOG_OPTIONS);
  const { task, tail, follow = false, intervalMs = 500, maxWaitMs, signal, onNotice = () => undefined } = options;
  const readers = new Map<string, LogReader>();
  const seen = new Containers(connection);
  const outage = new OutageTolerance(maxWaitMs);
  const waiting = new Waiting(onNotice);
  const restarts = new Restarts(onNotice);
  const silence = new Silence(onNotice);
  const unreadable = new Set<string>();
  const retired = new Set<LogReader>();
  let names = '';
  for (let first = true; ; ) {
    signal?.throwIfAborted();
    try {
      // Observe the job before reading its logs. If the job has already ended, the logs are complete, and no further read is necessary.
      const job = await untilAborted(connection.observe(), signal);
      const over = !follow || isOver(job);
      const all = await untilAborted(seen.at(job, over), signal);
      const { tasks, sources } = chosen(all, job, task, !over);
      if (tasks.join() !== names) {
        names = tasks.join();
        options.onTasks?.(tasks);
      }
      silence.report(job);
      if (!over) {
        waiting.report(job, tasks, sources);
      }
      restarts.report(sources, first);
      for (const source of sources) {
        for (const file of filesOf(source, options.files)) {
          const key = `${source.containerId} ${file}`;
          const reader = readers.get(key) ?? new LogReader(source, file, first ? tail : undefined);
          reader.source = source;
          readers.set(key, reader);
        }
      }
      first = false;
      const reading = [...readers.values()].filter((reader) => over || (reader.isDue && !retired.has(reader)));
      const failures = yield* read(reading, over, signal);
      // A restarted task's previous container has exited, and this read has reached the end of that container's logs.
      for (const reader of reading) {
        if (!restarts.isNewest(reader.source)) {
          retired.add(reader);
        }
      }
      // The logs and the job state may come from different services, so only a successful read of the logs ends an outage.
      const back = outage.answered();
      if (back !== null) {
        onNotice(back);
      }
      for (const { task: whose, error } of failures) {
        if (over) {
          throw error;
        }
        // A node that is shutting down does not provide logs until it has copied them to HDFS. Try again later.
        if (!unreadable.has(whose)) {
          onNotice(`${messageOf(error)} Retrying.`);
        }
        unreadable.add(whose);
      }
      if (over) {
        if ([...readers.values()].some((reader) => reader.found)) {
          return;
        }
        throw nothing(job, task);
      }
    } catch (error) {
      const away = outage.missed(error);
      if (away !== null) {
        onNotice(away);
      }
    }
    await pause(intervalMs, signal);
  }
}

function filesOf(source: LogSource, files: readonly string[] | undefined): readonly string[] {
  // The ApplicationMaster writes a structured log instead of stdout.
  return source.task === 'master' ? ['tony.log', 'stderr'] : (files ?? ['stdout', 'stderr']);
}

/** Caches the container list to limit the number of requests. */
class Containers {
  readonly #connection: LoggedJob;
  #sources: readonly LogSource[] = [];
  #key: string | null = null;
  #at = Number.NEGATIVE_INFINITY;

  constructor(connection: LoggedJob) {
    this.#connection = connection;
  }

  async at(job: JobInfo, over: boolean): Promise<readonly LogSource[]> {
    const places = job.tasks.flatMap(({ containerId, nodeHttp }) => [containerId, nodeHttp]);
    const key = isReported(job) ? [job.masterAttempt, ...places].join() : null;
    const now = performance.now();
    if (over || key !== this.#key || now - this.#at > (key === null ? LIST_EARLY_EVERY_MS : LIST_EVERY_MS)) {
      this.#sources = await this.#connection.logs();
      this.#key = key;
      this.#at = now;
    }
    return this.#sources;
  }
}

/** Reports why the job is waiting for its first container. */
class Waiting {
  readonly #onNotice: (notice: string) => void;
  #state = '';
  #notice = '';
  #at = Number.NEGATIVE_INFINITY;

  constructor(onNotice: (notice: string) => void) {
    this.#onNotice = onNotice;
  }

  report(job: JobInfo, tasks: readonly string[], sources: readonly LogSource[]): void {
    if (sources.length > 0) {
      return;
    }
    const { id } = job;
    const state = `${isReported(job) ? 'reported' : 'unreported'} ${job.state}`;
    const message = jobMessage(job);
    const why = `${job.state}${message === '' ? '' : `: ${message}`}`;
    const notice = isReported(job)
      ? `Waiting for ${tasks.length === 1 ? `a container for ${tasks[0]}` : 'containers'}: ${why}`
      : `${id} has not started yet: ${why}`;
    const now = performance.now();
    if (notice === this.#notice || (state === this.#state && now - this.#at < WAIT_EVERY_MS)) {
      return;
    }
    this.#notice = notice;
    this.#state = state;
    this.#at = now;
    this.#onNotice(notice);
  }
}

/** Reports when the ApplicationMaster stops responding, and when it responds again. */
class Silence {
  readonly #onNotice: (notice: string) => void;
  #silent = false;

  constructor(onNotice: (notice: string) => void) {
    this.#onNotice = onNotice;
  }

  report(job: JobInfo): void {
    const { masterSilentMs } = job;
    const silent = masterSilentMs !== null;
    if (silent === this.#silent) {
      return;
    }
    this.#silent = silent;
    if (masterSilentMs !== null) {
      this.#onNotice(silenceText(masterSilentMs));
    } else if (!isOver(job)) {
      this.#onNotice('The ApplicationMaster is answering again.');
    }
  }
}

/** Reports when a task gets a new container. */
class Restarts {
  readonly #onNotice: (notice: string) => void;
  readonly #known = new Set<string>();
  #newest: ReadonlyMap<string, string> = new Map();

  constructor(onNotice: (notice: string) => void) {
    this.#onNotice = onNotice;
  }

  /** @param sources containers of all tasks, with each task's older containers before its newer ones */
  report(sources: readonly LogSource[], first: boolean): void {
    const newest = new Map(sources.map(({ task, containerId }) => [task, containerId]));
    for (const [task, containerId] of newest) {
      // If the container is already known, at most its position in the list has changed, and the task was not restarted.
      if (!first && this.#newest.has(task) && !this.#known.has(containerId)) {
        this.#onNotice(`${task} was restarted in ${containerId}.`);
      }
    }
    for (const { containerId } of sources) {
      this.#known.add(containerId);
    }
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
 * Yields the new lines in the files, and returns the tasks whose files could not be read. Reads several files concurrently while the job
 * runs, and one file after another once the job has ended.
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
    for (const next of broken === null ? queue.splice(0, most - busy.size) : []) {
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
      if (!caughtUp) {
        over ? queue.unshift(reader) : queue.push(reader);
      }
    } catch (error) {
      // Do not throw yet. Otherwise, the lines from reads that are still in progress would be lost.
      if (error instanceof TonyError && error.code === 'LOGS_UNAVAILABLE') {
        failures.push({ task: reader.source.task, error });
      } else if (broken === null || isAway(broken.error)) {
        broken = { error };
      }
    }
  }
  if (broken !== null) {
    throw broken.error;
  }
  return failures;
}

/** Waits for `work`. Returns a function that returns the result of `work` or throws its error. Never rejects. */
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
  readonly tasks: readonly string[];
  readonly sources: readonly LogSource[];
}

function chosen(sources: readonly LogSource[], job: JobInfo, task: string | undefined, mayCome: boolean): Chosen {
  const planned = job.tasks.map(({ role, index }) => `${role}:${index}`);
  const programs = [...new Set([...planned, ...sources.map((source) => source.task).filter((name) => name !== 'master')])];
  if (task === undefined) {
    const ofPrograms = sources.filter((source) => source.task !== 'master');
    // If no program has started, show the ApplicationMaster's log, which is the only output of the job.
    return ofPrograms.length > 0 || mayCome ? { tasks: programs, sources: ofPrograms } : { tasks: ['master'], sources };
  }
  const wanted = (name: string): boolean => name === task || name.split(':')[0] === task;
  const all = [...programs, 'master'];
  const tasks = all.filter(wanted);
  if (tasks.length > 0) {
    return { tasks, sources: sources.filter((source) => wanted(source.task)) };
  }
  if (mayCome && (planned.length === 0 || isElastic(task, job))) {
    return { tasks: [task], sources: [] };
  }
  if (programs.length === 0) {
    throw nothing(job, task);
  }
  const meant = suggest(task, [...all, ...all.map((name) => name.split(':')[0] ?? name)]);
  throw new TonyError('TASK_NOT_FOUND', `The job has no task ${task}${meant === undefined ? '' : `; did you mean ${meant}?`}`, {
    hint: `Its tasks are: ${programs.join(', ')}.`,
  });
}

function isElastic(task: string, { elastic }: JobInfo): boolean {
  const [role, index] = task.split(':');
  return elastic !== null && elastic.role === role && Number(index) < elastic.max;
}

function nothing(job: JobInfo, task: string | undefined): TonyError {
  const { id, message } = job;
  // The ApplicationMaster runs, but does not show the job to this user.
  if (job.state === 'running' && !isReported(job) && message !== '') {
    return new TonyError('ACCESS_DENIED', `The logs of ${task ?? id} cannot be found.`, { hint: message });
  }
  const hint = isOver(job)
    ? `YARN aggregates logs some seconds after a job ends. Try again in a moment. \`tony-ts status ${id}\` shows how the job ended.`
    : isReported(job)
      ? 'Add -f to wait for the logs.'
      : job.message || 'No container has started yet. Add -f to wait for the logs.';
  return new TonyError('LOGS_UNAVAILABLE', `${task ?? id} has no logs yet.`, { hint });
}
