import { isOver } from '../../../conf/status/job-info.ts';
import type { HistoryEntry } from '../../../conf/status/status.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { checkOptions, type OptionNames } from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import { OutageTolerance } from '../../cluster/outage-tolerance.ts';
import type { JobConnection } from '../job-connection.ts';
import { eventPages, readHistory } from '../job-records.ts';

export interface EventOptions {
  /** Event types to yield. `task-failed` matches one type, and `task` matches all types that begin with `task-`. Default: all types. */
  readonly types?: readonly string[];
  /** Whether to continue until the job ends. */
  readonly follow?: boolean;
  /** Interval between observations in ms. Default: 500. */
  readonly intervalMs?: number;
  /** Signal that stops the generator. The generator then throws the abort reason. */
  readonly signal?: AbortSignal;
  /** Receives notices about the connection, for example that the cluster is unreachable. */
  readonly onNotice?: (message: string) => void;
}

const EVENT_OPTIONS: OptionNames<EventOptions> = { types: true, follow: true, intervalMs: true, signal: true, onNotice: true };

/** How long (ms) to wait for the last events after a job has ended. */
const SETTLING_MS = 3_000;
const SETTLING_EVERY_MS = 200;
/** No further events are expected once a job has been over for this long (ms). */
const LONG_OVER_MS = 30_000;

/**
 * Yields a job's events in order. Reads the events from the ApplicationMaster while the job runs, and then from the history.
 * @throws TonyError JOB_NOT_FOUND, HISTORY_NOT_FOUND if no events can be read, or a connection error if the cluster is unreachable
 */
export async function* jobEvents(connection: JobConnection, options: EventOptions = {}): AsyncGenerator<HistoryEntry> {
  checkOptions('jobEvents', options, EVENT_OPTIONS);
  const { types = [], follow = false, intervalMs = 500, signal, onNotice } = options;
  const reader = new EventReader(connection);
  const outage = new OutageTolerance();
  const report = (notice: string | null): void => {
    if (notice !== null) {
      onNotice?.(notice);
    }
  };
  for (;;) {
    signal?.throwIfAborted();
    try {
      const job = await connection.observe();
      const over = isOver(job);
      const news = over ? reader.last(job.finishedAt) : reader.fresh(follow);
      for await (const entry of news) {
        if (matches(entry, types)) {
          yield entry;
        }
      }
      // The history and the job state may come from different services, so only a successful read of the events ends an outage.
      report(outage.answered());
      if (over || !follow) {
        if (!over && reader.isIncomplete) {
          onNotice?.('The ApplicationMaster sends more events than a job can have. Further events are not shown.');
        }
        return;
      }
    } catch (error) {
      if (!follow) {
        throw error;
      }
      report(outage.missed(error));
    }
    await pause(intervalMs, signal);
  }
}

/** Returns true if an entry has one of the types. For example, `task` matches every type that begins with `task-`. */
export function matches({ type: event }: HistoryEntry, types: readonly string[]): boolean {
  return types.length === 0 || types.some((type) => event === type || event.startsWith(`${type}-`));
}

/** Returns the entries that follow `last`, the most recent entry that was yielded. */
export function behind(entries: readonly HistoryEntry[], last: HistoryEntry | null): readonly HistoryEntry[] {
  if (last === null) {
    return entries;
  }
  const text = JSON.stringify(last);
  const at = entries.findLastIndex((entry) => entry.at === last.at && JSON.stringify(entry) === text);
  // `last` may be missing, because the ApplicationMaster could not write all entries to the history.
  return at >= 0 ? entries.slice(at + 1) : entries.filter((entry) => entry.at > last.at);
}

class EventReader {
  readonly #connection: JobConnection;
  #after = 0;
  #last: HistoryEntry | null = null;
  #isIncomplete = false;

  constructor(connection: JobConnection) {
    this.#connection = connection;
  }

  /** Whether the ApplicationMaster had more events than `fresh` reads at once. */
  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  /**
   * Yields a running job's new events.
   * @param patient whether the caller tries again later if the ApplicationMaster does not respond
   */
  async *fresh(patient: boolean): AsyncGenerator<HistoryEntry> {
    const pages = eventPages(this.#connection.records, this.#after);
    for (;;) {
      const { value: page, done } = await pages.next();
      if (done === true) {
        this.#isIncomplete = page;
        return;
      }
      if (page === null) {
        if (!patient) {
          yield* await this.#stored();
        }
        return;
      }
      this.#after = page.next;
      for (const entry of page.entries) {
        yield this.#yielded(entry);
      }
    }
  }

  async *last(endedAt: number | null): AsyncGenerator<HistoryEntry> {
    const finishedAt = endedAt ?? (await this.#connection.records.yarn())?.finishedAt ?? null;
    const fresh = finishedAt === null || Date.now() - finishedAt < LONG_OVER_MS;
    const deadline = performance.now() + (fresh ? SETTLING_MS : 0);
    for (;;) {
      const entries = await this.#stored();
      for (const entry of entries) {
        yield this.#yielded(entry);
      }
      if (this.#last?.type === 'job-finished' || performance.now() > deadline) {
        return;
      }
      await pause(SETTLING_EVERY_MS);
    }
  }

  #yielded(entry: HistoryEntry): HistoryEntry {
    this.#last = entry;
    return entry;
  }

  async #stored(): Promise<readonly HistoryEntry[]> {
    const { id, records } = this.#connection;
    const history = await readHistory(records);
    if (history !== null) {
      return behind(history.record.entries, this.#last);
    }
    if (this.#last !== null) {
      return [];
    }
    throw new TonyError('HISTORY_NOT_FOUND', `${id} has no events that you may view.`, {
      hint: "A job has no events until its ApplicationMaster has started. To view the events of another user's job, you must be listed in its acls.view.",
    });
  }
}
