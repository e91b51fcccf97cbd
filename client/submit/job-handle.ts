import { describeFailure } from '../../conf/status/event-text.ts';
import type { JobInfo } from '../../conf/status/job-info.ts';
import type { HistoryEntry } from '../../conf/status/status.ts';
import { RESULT_FILE } from '../../conf/values/run-call.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { checkOptions } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { MOST_JSON_BYTES } from '../../platform/json-value.ts';
import { toleratingOutages } from '../cluster/outage-tolerance.ts';
import { CONNECT_OPTIONS, type ConnectOptions, connectJob } from '../connections/connect-job.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { describeJob, type JobDescription } from '../connections/operations/describe-job.ts';
import { type EndedJob, type FollowOptions, followJob } from '../connections/operations/follow-job.ts';
import type { JobEvent } from '../connections/operations/job-events.ts';
import { copyJobFiles, jobFiles, type SavedFile } from '../connections/operations/job-files.ts';
import { jobLogs, type LogLine, type LogOptions } from '../connections/operations/job-logs.ts';
import { type KillReport, killJob } from '../connections/operations/kill-job.ts';
import { observeWithPages } from '../connections/operations/observe-with-pages.ts';
import { type EventOptions, jobEvents } from '../connections/operations/recorded-events.ts';
import { type ExecStreams, execInTask } from '../sessions/exec.ts';
import { type ForwardedPort, type ForwardOptions, forwardPort } from '../sessions/forward-port.ts';

const LAST_LINES = 20;

/** The last event of a job. */
export interface ResultEvent extends EndedJob {
  readonly type: 'result';
}

/**
 * Handle to a running or finished job, for notebooks and programs. `T` is the type of the chief's return value. A job on a cluster
 * continues when this process exits. A local job ends when this process ends, unless `detach` was set.
 */
export class JobHandle<T = unknown> {
  readonly id: string;
  /** URL of the job's pages, or null for a local job. To get the URL for a local job, call `pages`. */
  readonly trackingUrl: string | null;
  readonly #connection: JobConnection;
  readonly #closing = new AbortController();
  /** Settles after `onLog` has received the last output line. */
  readonly #logged: Promise<void>;
  readonly #calls: boolean;

  /**
   * @param onLog receives program output until the job ends or the handle is closed
   * @param calls whether the job runs a function. Such a job cannot succeed before the function has returned.
   */
  constructor(connection: JobConnection, onLog?: (line: LogLine) => void, calls = false) {
    this.#calls = calls;
    this.id = connection.id;
    this.trackingUrl = connection.trackingUrl;
    this.#connection = connection;
    this.#logged = onLog === undefined ? Promise.resolve() : this.#log(onLog);
    // Prevents an unhandled rejection. The error is not lost, because `result` awaits the same promise.
    this.#logged.catch(() => {});
  }

  async #log(onLog: (line: LogLine) => void): Promise<void> {
    const onNotice = (text: string): void => onLog({ task: 'client', containerId: '', file: 'stderr', text });
    try {
      for await (const line of this.logs({ signal: this.#closing.signal, onNotice })) {
        onLog(line);
      }
    } catch (error) {
      if (this.#closing.signal.aborted) {
        return;
      }
      // All errors except TonyError come from the caller's `onLog` function.
      if (!(error instanceof TonyError)) {
        throw error;
      }
      onNotice(`Cannot follow the logs: ${messageOf(error)}`);
    }
  }

  /**
   * Returns the current state of the job and its tasks.
   * @throws TonyError JOB_NOT_FOUND, RM_UNREACHABLE
   */
  status(): Promise<JobInfo> {
    return observeWithPages(this.#connection);
  }

  /** Returns the URL of the job's pages, or null while the pages are not available. */
  pages(): Promise<string | null> {
    return this.#connection.pages();
  }

  /** Yields the lines that the programs write until the job ends. With `{ follow: false }`, yields only the lines written so far. */
  logs(options: LogOptions = {}): AsyncGenerator<LogLine> {
    return jobLogs(this.#connection, { follow: true, ...options });
  }

  /**
   * Yields what happens to the job until it ends: changes of its state and of its tasks, metrics, checkpoints and notices. The last event
   * has the type `result`, also if the job fails.
   * @throws TonyError JOB_NOT_FOUND, RM_UNREACHABLE, HDFS_UNREACHABLE
   */
  async *events(options: FollowOptions = {}): AsyncGenerator<JobEvent | ResultEvent, void> {
    const looks = followJob(this.#connection, options);
    for (;;) {
      const { done, value } = await looks.next();
      if (done) {
        yield { type: 'result', ...value };
        return;
      }
      yield* value.events;
    }
  }

  /** Yields the events that the job has recorded, from its start. With `{ follow: true }`, until the job ends. */
  recordedEvents(options: EventOptions = {}): AsyncGenerator<HistoryEntry> {
    return jobEvents(this.#connection, options);
  }

  /** Returns everything that is known about the job: its tasks and containers, its first failure, its checkpoints and its places. */
  describe(): Promise<JobDescription> {
    return describeJob(this.#connection);
  }

  /** Lists the files that the job has saved in its output folder, or in a folder below it. */
  files(from = ''): Promise<SavedFile[]> {
    return jobFiles(this.#connection, from);
  }

  /**
   * Copies a file or folder that the job has saved to this machine. The copy appears when all of its files are complete.
   * @param from path below the job's output folder, such as `model`
   * @param to path that does not exist yet
   * @throws TonyError NOT_FOUND, ALREADY_EXISTS, USAGE
   */
  async copyFiles(from: string, to: string): Promise<void> {
    await copyJobFiles(this.#connection, from, to, this.#closing.signal);
  }

  /**
   * Runs a command in a task of the running job, in the same working directory and environment as the task's program. The command is
   * stopped when the program, the executor or this process exits.
   * @param task `ROLE:INDEX`
   * @param words program and arguments
   * @returns the command's exit code, or 128 + N if signal N terminated the command
   * @throws TonyError USAGE, SESSION_DENIED, SESSION_ENDED, REMOTE_ACCESS_DENIED
   */
  exec(task: string, words: readonly string[], streams: ExecStreams): Promise<number> {
    return execInTask(this.#connection, task, words, streams);
  }

  /** Forwards a port of this machine to a port of a task. The caller must close the returned port. */
  forward(task: string, port: number, options: ForwardOptions = {}): Promise<ForwardedPort> {
    return forwardPort(this.#connection, task, port, options);
  }

  /** Waits until the job ends, and returns its final state. Does not throw if the job fails. */
  async report(options: FollowOptions = {}): Promise<EndedJob> {
    const looks = followJob(this.#connection, options);
    for (;;) {
      const { done, value } = await looks.next();
      if (done) {
        return value;
      }
    }
  }

  /**
   * Waits until the job ends, and returns the return value of the chief's function, or undefined if the job does not run a function.
   * @throws TonyError JOB_FAILED if the job failed or was killed. The message contains the error and the last output lines of the task that
   *   failed first.
   */
  async result(options: FollowOptions = {}): Promise<T> {
    const job = await this.report(options);
    await untilAborted(this.#logged, options.signal);
    if (job.state !== 'succeeded') {
      throw failure(job);
    }
    const bytes = await toleratingOutages(() => this.#connection.output(RESULT_FILE, MOST_JSON_BYTES + 1024), options);
    if (bytes === null && this.#calls) {
      throw new TonyError('JOB_FAILED', `${this.id} has ended, but its function did not return: the chief's program exited first.`, {
        hint: 'Return from the function. process.exit() within it ends the program without a value.',
      });
    }
    if (bytes === null) {
      return undefined as T;
    }
    try {
      return (JSON.parse(bytes.toString()) as { readonly value?: unknown }).value as T;
    } catch (error) {
      throw new TonyError('JOB_FAILED', `The result of ${this.id} cannot be read: ${messageOf(error)}.`, { jobId: this.id, cause: error });
    }
  }

  kill(): Promise<KillReport> {
    return killJob(this.#connection);
  }

  close(): void {
    this.#closing.abort();
    this.#connection.close();
  }
}

/**
 * Returns a handle to a submitted job, whose ID is `application_..._0001` on a cluster or `local_..._0001` on this machine. Does not
 * contact the cluster yet.
 * @throws TonyError USAGE for an invalid ID, JOB_NOT_FOUND for a local job that does not exist, HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID
 */
export async function openJob<T = unknown>(id: string, options: ConnectOptions = {}): Promise<JobHandle<T>> {
  checkOptions('openJob', options, CONNECT_OPTIONS);
  return new JobHandle<T>(await connectJob(id, options));
}

function failure({ id, state, message, failure: first }: EndedJob): TonyError {
  if (state === 'killed') {
    return new TonyError('JOB_FAILED', `${id} was killed${message === '' ? '.' : `: ${message}`}`, { hint: '' });
  }
  if (first === null) {
    return new TonyError('JOB_FAILED', `${id} has failed: ${message}`, { jobId: id });
  }
  const sentence = describeFailure(first, first.role);
  if (first.lines.length === 0) {
    return new TonyError('JOB_FAILED', `${id} has failed: ${sentence}`, { jobId: id });
  }
  const lines = first.lines.slice(-LAST_LINES);
  return new TonyError(
    'JOB_FAILED',
    `${id} has failed in ${first.role}:${first.index}: ${errorLine(lines) ?? sentence}\n${lines.map((line) => `  ${line}`).join('\n')}`,
    { jobId: id },
  );
}

/** Returns the first line of an uncaught error in the output. */
export function errorLine(lines: readonly string[]): string | undefined {
  return lines.find((line) => /^(?:Uncaught )?(?:[\w$]*(?:Error|Exception))\b/.test(line.trim()))?.trim();
}
