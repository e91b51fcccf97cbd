import type { JobInfo } from '../../../conf/status/job-info.ts';
import { untilAborted } from '../../../platform/async/until-aborted.ts';
import type { JobConnection } from '../../connections/job-connection.ts';
import { jobLogs } from '../../connections/operations/job-logs.ts';
import type { LogLine } from '../../connections/operations/log-reader.ts';

/** Maximum number of lines that may wait for a slow output. */
const MOST_LINES = 256;

/** Combines lines into batches for an output that may be slow. Each batch contains the lines that arrived while the output was busy. */
export class LineBatches<Line> {
  readonly #show: (lines: readonly Line[]) => Promise<void>;
  #waiting: Line[] = [];
  #showing: Promise<void> | null = null;

  constructor(show: (lines: readonly Line[]) => Promise<void>) {
    this.#show = show;
  }

  /**
   * Adds a line. Resolves when there is room for the next line.
   * @throws the errors of `show`
   */
  async add(line: Line): Promise<void> {
    this.#waiting.push(line);
    this.#showing ??= this.#showAll();
    // Prevents an unhandled rejection. `#showing` keeps the error for the next call.
    this.#showing.catch(() => undefined);
    if (this.#waiting.length >= MOST_LINES) {
      await this.#showing;
    }
  }

  /**
   * Resolves when the output has accepted all lines.
   * @throws the errors of `show`
   */
  async flush(): Promise<void> {
    await this.#showing;
  }

  async #showAll(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      await this.#show(lines);
    }
    this.#showing = null;
  }
}

/** Maximum time (ms) between two lines after a job has ended. YARN may still be copying the logs to HDFS. */
const QUIET_MS = 15_000;

/**
 * Shows program output while a command follows the job. A slow terminal does not slow down the programs or keep the command from observing
 * the job.
 */
export class ProgramLines {
  readonly #connection: Pick<JobConnection, 'id' | 'logs'>;
  readonly #task: string | undefined;
  readonly #show: (lines: readonly LogLine[], tasks: readonly string[]) => Promise<void>;
  readonly #quietMs: number;
  readonly #stop = new AbortController();
  #latest: JobInfo | null = null;
  #reading: Promise<boolean> | null = null;
  #shown = 0;

  /**
   * @param task task such as `worker:0`, or undefined for all tasks
   * @param show shows lines in order, and resolves when the output accepts more. `tasks` contains the names of the selected tasks.
   */
  constructor(
    connection: Pick<JobConnection, 'id' | 'logs'>,
    task: string | undefined,
    show: (lines: readonly LogLine[], tasks: readonly string[]) => Promise<void>,
    quietMs = QUIET_MS,
  ) {
    this.#connection = connection;
    this.#task = task;
    this.#show = show;
    this.#quietMs = quietMs;
  }

  /** Receives the observed job from the caller. The first call starts to read the logs. */
  observed(job: JobInfo): void {
    this.#latest = job;
    this.#reading ??= this.#read(job).catch(() => false);
  }

  /**
   * After the job has ended, waits until all lines have been shown. Returns false if the next line does not arrive in time, or if `signal`
   * is aborted.
   */
  async end(signal: AbortSignal): Promise<boolean> {
    const reading = this.#reading ?? Promise.resolve(true);
    for (let before = -1; before !== this.#shown; ) {
      before = this.#shown;
      const pause = AbortSignal.any([signal, AbortSignal.timeout(this.#quietMs)]);
      const isComplete = await untilAborted(reading, pause).catch(() => null);
      if (isComplete !== null || signal.aborted) {
        return isComplete === true;
      }
    }
    return false;
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Shows all of the job's output lines, and then returns true. */
  async #read(first: JobInfo): Promise<boolean> {
    let tasks: readonly string[] = [];
    const batches = new LineBatches<LogLine>(async (lines) => {
      await this.#show(lines, tasks);
      this.#shown += lines.length;
    });
    const source = { id: this.#connection.id, observe: async () => this.#latest ?? first, logs: () => this.#connection.logs() };
    const lines = jobLogs(source, {
      task: this.#task,
      follow: true,
      signal: this.#stop.signal,
      onTasks: (selected) => {
        tasks = selected;
      },
    });
    for await (const line of lines) {
      // Skip the ApplicationMaster's log, which `jobLogs` yields if no program has started.
      if (line.task !== 'master') {
        await batches.add(line);
      }
    }
    await batches.flush();
    return true;
  }
}
