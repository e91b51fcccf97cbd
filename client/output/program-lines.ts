import { untilAborted } from '../../platform/until-aborted.ts';
import type { JobConnection, Observation } from '../connections/job-connection.ts';
import { jobLogs } from '../connections/job-logs.ts';
import type { LogLine } from '../connections/log-reader.ts';
import { LineBatches } from './line-batches.ts';

/**
 * After a job has ended, at least one further line must arrive in each interval of this length (ms). YARN may still be copying the logs to
 * HDFS.
 */
const QUIET_MS = 15_000;

/**
 * Shows the output of programs while a command follows their job. A slow terminal delays only the output: neither the programs nor the
 * observation of the job wait for it.
 */
export class ProgramLines {
  readonly #connection: Pick<JobConnection, 'applicationId' | 'logs'>;
  readonly #task: string | undefined;
  readonly #show: (lines: readonly LogLine[], tasks: readonly string[]) => Promise<void>;
  readonly #quietMs: number;
  readonly #stop = new AbortController();
  #latest: Observation | null = null;
  #reading: Promise<boolean> | null = null;
  #shown = 0;

  /**
   * @param task a task such as `worker:0`; undefined for all tasks
   * @param show shows lines in order; resolves when the output accepts more lines. `tasks` are the names of the selected tasks.
   */
  constructor(
    connection: Pick<JobConnection, 'applicationId' | 'logs'>,
    task: string | undefined,
    show: (lines: readonly LogLine[], tasks: readonly string[]) => Promise<void>,
    quietMs = QUIET_MS,
  ) {
    this.#connection = connection;
    this.#task = task;
    this.#show = show;
    this.#quietMs = quietMs;
  }

  /**
   * Receives the caller's observations of the job, so that this class does not observe the job again. The first call starts reading the logs.
   */
  observed(observation: Observation): void {
    this.#latest = observation;
    this.#reading ??= this.#read(observation).catch(() => false);
  }

  /**
   * After the end of the job, waits until all lines are shown, until no further line arrives, or until `signal` aborts. Returns whether all
   * lines have been shown.
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

  /** Resolves to true when all lines of the job have been shown. */
  async #read(first: Observation): Promise<boolean> {
    let tasks: readonly string[] = [];
    const batches = new LineBatches<LogLine>(async (lines) => {
      await this.#show(lines, tasks);
      this.#shown += lines.length;
    });
    const { applicationId } = this.#connection;
    const source = { applicationId, observe: async () => this.#latest ?? first, logs: () => this.#connection.logs() };
    const lines = jobLogs(source, {
      task: this.#task,
      follow: true,
      signal: this.#stop.signal,
      onTasks: (selected) => {
        tasks = selected;
      },
    });
    for await (const line of lines) {
      // Without any program, the log of the ApplicationMaster would be the only output.
      if (line.task !== 'master') {
        await batches.add(line);
      }
    }
    await batches.flush();
    return true;
  }
}
