import { setTimeout as delay } from 'node:timers/promises';
import { TonyError } from '../conf/errors.ts';
import type { HistoryEntry } from '../conf/status.ts';
import type { JobConnection } from './job-connection.ts';
import { askEvents, readHistory } from './job-records.ts';
import { Patience } from './patience.ts';

export interface EventOptions {
  /** Only these: `task-failed`, or `task` for all whose name begins with `task-`; all unless told. */
  readonly types?: readonly string[];
  /** Go on until the job is over. */
  readonly follow?: boolean;
  /** Between two looks; default 500. */
  readonly intervalMs?: number;
  /** Ends following; the generator then throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** What there is to say beside the events: that the cluster is away for a while. */
  readonly onNotice?: (message: string) => void;
}

/** How long a job that has just ended may take to write its last events. */
const SETTLING_MS = 3_000;
const SETTLING_EVERY_MS = 200;
/** A job that ended so long ago writes no more. */
const LONG_OVER_MS = 30_000;

/**
 * What happened to a job, in its order: while it runs as its ApplicationMaster tells it, after that as its history has kept it.
 *
 * @throws TonyError APPLICATION_UNKNOWN, HISTORY_UNKNOWN when there are no events that may be seen, or that the cluster cannot be reached.
 */
export async function* jobEvents(connection: JobConnection, options: EventOptions = {}): AsyncGenerator<HistoryEntry> {
  const { types = [], follow = false, intervalMs = 500, signal, onNotice } = options;
  const reader = new EventReader(connection);
  const patience = new Patience();
  const say = (notice: string | null): void => {
    if (notice !== null) onNotice?.(notice);
  };
  for (;;) {
    signal?.throwIfAborted();
    try {
      const { status, result } = await connection.observe();
      const news = result === null ? reader.fresh(follow) : reader.last(status?.finishedAt ?? null);
      for await (const entry of news) if (matches(entry, types)) yield entry;
      // Not before: what was seen of the job says nothing of the storage that keeps its history.
      say(patience.answered());
      if (result !== null || !follow) return;
    } catch (error) {
      if (!follow) throw error;
      say(patience.missed(error));
    }
    await delay(intervalMs, undefined, { ...(signal && { signal }) }).catch(() => undefined);
  }
}

/** `task` is every type that begins with `task-`. */
export function matches({ event }: HistoryEntry, types: readonly string[]): boolean {
  return types.length === 0 || types.some((type) => event === type || event.startsWith(`${type}-`));
}

/** Of `entries` those behind the one that was told last. */
export function behind(entries: readonly HistoryEntry[], last: HistoryEntry | null): readonly HistoryEntry[] {
  if (last === null) return entries;
  const text = JSON.stringify(last);
  const at = entries.findLastIndex((entry) => entry.at === last.at && JSON.stringify(entry) === text);
  // A history that could not be written for a while lacks some.
  return at >= 0 ? entries.slice(at + 1) : entries.filter((entry) => entry.at > last.at);
}

class EventReader {
  readonly #connection: JobConnection;
  #after = 0;
  #last: HistoryEntry | null = null;

  constructor(connection: JobConnection) {
    this.#connection = connection;
  }

  /** Of a job that runs. @param patient Whether there will be another look. */
  async *fresh(patient: boolean): AsyncGenerator<HistoryEntry> {
    for (;;) {
      const page = await askEvents(this.#connection.records, this.#after);
      if (page === null && !patient) {
        yield* await this.#stored();
        return;
      }
      if (page === null || page.entries.length === 0) return;
      this.#after = page.next;
      for (const entry of page.entries) yield this.#told(entry);
    }
  }

  /** Of a job that is over. */
  async *last(said: number | null): AsyncGenerator<HistoryEntry> {
    const finishedAt = said ?? (await this.#connection.records.yarn())?.finishedAt ?? null;
    const fresh = finishedAt === null || Date.now() - finishedAt < LONG_OVER_MS;
    const deadline = performance.now() + (fresh ? SETTLING_MS : 0);
    for (;;) {
      const entries = await this.#stored();
      for (const entry of entries) yield this.#told(entry);
      if (this.#last?.event === 'job-finished' || performance.now() > deadline) return;
      await delay(SETTLING_EVERY_MS);
    }
  }

  #told(entry: HistoryEntry): HistoryEntry {
    this.#last = entry;
    return entry;
  }

  async #stored(): Promise<readonly HistoryEntry[]> {
    const { applicationId, records } = this.#connection;
    const history = await readHistory(records);
    if (history !== null) return behind(history.record.entries, this.#last);
    if (this.#last !== null) return [];
    throw new TonyError('HISTORY_UNKNOWN', `There are no events of ${applicationId} that you may see.`, {
      hint: "Those of a job that waits for its ApplicationMaster are still to come; those of other users' jobs are for whom acls.view of the job names.",
    });
  }
}
