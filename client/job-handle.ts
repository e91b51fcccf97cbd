import { messageOf, TonyError } from '../conf/errors.ts';
import { MOST_JSON_BYTES } from '../conf/json-value.ts';
import { RESULT_FILE } from '../conf/run-call.ts';
import type { FirstFailure } from '../conf/status.ts';
import { type ConnectOptions, connectJob } from './connect-job.ts';
import { type FollowOptions, followJob, type JobReport } from './follow-job.ts';
import type { JobConnection, Observation } from './job-connection.ts';
import { jobLogs, type LogLine, type LogOptions } from './job-logs.ts';
import { type KillReport, killJob } from './kill-job.ts';
import { patiently } from './patience.ts';
import { untilAborted } from './until-aborted.ts';

const LAST_LINES = 20;

/**
 * A job that runs, or ran, as a notebook or program holds it. `T`: what its chief returns.
 *
 * On a cluster the job goes on without its handle. A local job ends with this process, unless it was started with `detach`.
 */
export class JobHandle<T = unknown> {
  readonly id: string;
  /** Where a browser shows it; null in local mode, see `pages`. */
  readonly trackingUrl: string | null;
  readonly #connection: JobConnection;
  readonly #closing = new AbortController();
  /** Settles when `onLog` has been told the last line. */
  readonly #told: Promise<void>;

  /** @param onLog told what the programs write, until the job is over or the handle closed. */
  constructor(connection: JobConnection, onLog?: (line: LogLine) => void) {
    this.id = connection.applicationId;
    this.trackingUrl = connection.trackingUrl;
    this.#connection = connection;
    this.#told = onLog === undefined ? Promise.resolve() : this.#tell(onLog);
    // Whoever waits for the end hears of it.
    this.#told.catch(() => {});
  }

  async #tell(onLog: (line: LogLine) => void): Promise<void> {
    const say = (text: string): void => onLog({ task: 'client', containerId: '', file: 'stderr', text });
    try {
      for await (const line of this.logs({ signal: this.#closing.signal, onNotice: say })) onLog(line);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      // What the caller's own function throws is the caller's.
      if (!(error instanceof TonyError)) throw error;
      say(`The logs cannot be followed: ${messageOf(error)}`);
    }
  }

  /**
   * The job as it is now: `phase`, the tasks in `status`, and `result` once it is over.
   * @throws TonyError APPLICATION_UNKNOWN, RM_UNREACHABLE.
   */
  status(): Promise<Observation> {
    return this.#connection.observe();
  }

  /** Where a browser shows the job now; null while nothing does. */
  pages(): Promise<string | null> {
    return this.#connection.pages();
  }

  /** What the tasks' programs write, line by line, until the job is over; with `{ follow: false }` what they have written so far. */
  logs(options: LogOptions = {}): AsyncGenerator<LogLine> {
    return jobLogs(this.#connection, { follow: true, ...options });
  }

  /** Waits for the end, whatever it is. */
  async report(options: FollowOptions = {}): Promise<JobReport> {
    const looks = followJob(this.#connection, options);
    for (;;) {
      const { done, value } = await looks.next();
      if (done) return value;
    }
  }

  /**
   * Waits for the end, and answers what the chief's function returned; undefined for a job without a function, or whose function returned nothing.
   * @throws TonyError JOB_FAILED with the first failing task's error and its last lines, when it has failed or was killed.
   */
  async result(options: FollowOptions = {}): Promise<T> {
    const { state, diagnostics } = await this.report(options);
    await untilAborted(this.#told, options.signal);
    if (state !== 'SUCCEEDED') {
      const { status } = await patiently(() => this.#connection.observe(), options);
      throw failure(this.id, state, diagnostics, status?.failure ?? null);
    }
    const bytes = await patiently(() => this.#connection.output(RESULT_FILE, MOST_JSON_BYTES + 1024), options);
    if (bytes === null) return undefined as T;
    try {
      return (JSON.parse(bytes.toString()) as { readonly value?: unknown }).value as T;
    } catch (error) {
      throw new TonyError('JOB_FAILED', `The result of ${this.id} cannot be read: ${messageOf(error)}.`, { cause: error });
    }
  }

  /** Ends the job and waits until the cluster says so. */
  kill(): Promise<KillReport> {
    return killJob(this.#connection);
  }

  /** Closes connections. A job on a cluster goes on. */
  close(): void {
    this.#closing.abort();
    this.#connection.close();
  }
}

/**
 * A job that was started before, by this or another process: `application_..._0001`, or `local_..._0001` for one of this machine.
 * Connects to nothing yet.
 * @throws TonyError USAGE when it is no id, NO_HADOOP_CONF, HADOOP_CONF_INVALID.
 */
export async function attachJob<T = unknown>(id: string, options: ConnectOptions = {}): Promise<JobHandle<T>> {
  return new JobHandle<T>(await connectJob(id, options));
}

function failure(id: string, state: JobReport['state'], diagnostics: string, first: FirstFailure | null): TonyError {
  if (state === 'KILLED')
    return new TonyError('JOB_FAILED', `${id} was killed${diagnostics === '' ? '.' : `: ${diagnostics}`}`, { hint: '' });
  if (first === null || first.lines.length === 0) return new TonyError('JOB_FAILED', `${id} has failed: ${first?.text || diagnostics}`);
  const lines = first.lines.slice(-LAST_LINES);
  const error = errorLine(lines);
  const who = first.task === null ? '' : ` in ${first.task}`;
  const head = error === undefined ? first.text : error;
  return new TonyError('JOB_FAILED', `${id} has failed${who}: ${head}\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

/** The first line of what an uncaught error prints. */
export function errorLine(lines: readonly string[]): string | undefined {
  return lines.find((line) => /^(?:Uncaught )?(?:[\w$]*(?:Error|Exception))\b/.test(line.trim()))?.trim();
}
