import type { HistoryEntry, JobStatus, UsageSample } from '../../conf/status/status.ts';
import { backoffMs, pause, retry } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { FEED_ADDRESS_FILE, type FeedAddress } from '../../protos/feed-protocol.ts';
import type { SessionAddress } from '../../protos/session-protocol.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { historyFileName, historyFiles, parseEntries, parseSamples } from '../../web/history-files.ts';
import { parseSnapshot, type Snapshot } from '../job/state/snapshot-format.ts';
import { retryStorage, STORAGE_BACKOFF } from './storage-retry.ts';

interface RewrittenFileOptions {
  readonly storage: Storage;
  readonly uri: string;
  readonly permission: number;
  readonly content: () => Buffer;
  /** Delay in ms between the first change and the write. */
  readonly pauseMs: () => number;
  readonly log: Logger;
}

/** A growing file on a storage system that cannot append to files. Rewrites the whole file at intervals. */
export class RewrittenFile {
  readonly #options: RewrittenFileOptions;
  #isStale = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: RewrittenFileOptions) {
    this.#options = options;
  }

  touch(): void {
    this.#isStale = true;
    if (this.#timer !== null || this.#isClosed) {
      return;
    }
    this.#timer = setTimeout(() => void this.#write(), this.#options.pauseMs());
    this.#timer.unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#write();
  }

  #write(): Promise<void> {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
    }
    this.#timer = null;
    this.#writing = this.#writing.then(async () => {
      if (!this.#isStale) {
        return;
      }
      this.#isStale = false;
      const { storage, uri, permission, content, log } = this.#options;
      try {
        await storage.write(uri, content(), { permission });
      } catch (error) {
        log.warn({ uri, error: messageOf(error) }, 'could not write a history file');
        this.touch();
      }
    });
    return this.#writing;
  }
}

/** Delay in ms before events are written. The delay grows by 1 ms per event. */
const EVENTS_PAUSE_MS = 1000;
/** Delay in ms before usage samples are written. */
const SAMPLES_PAUSE_MS = 30_000;
/** Number of events at the beginning that are always kept, because they show how the job started. */
const FIRST_EVENTS = 5_000;
const MAXIMUM_EVENTS = 25_000;

export interface EarlierAttempt {
  readonly attempt: number;
  readonly entries: readonly HistoryEntry[];
  readonly samples: readonly UsageSample[];
}

export interface JobFilesOptions {
  readonly storage: Storage;
  readonly staging: string;
  readonly history: string;
  readonly historyShared?: boolean;
  readonly attempt: number;
  /** Called when the staging folder no longer exists. */
  readonly gone: () => void;
  readonly log: Logger;
}

/**
 * Reads and writes an ApplicationMaster attempt's files:
 * - `<staging>/am.json`: addresses of the newest attempt, for executors and for the job user's sessions.
 * - `<staging>/state-<attempt>.json`: the job's state. Each attempt has its own file, so that an old attempt cannot overwrite newer state.
 * - `<staging>/services-<attempt>.json`: data that was assigned to the job's programs (see DurableNotes).
 * - `<staging>/feed.json`: address of the feed server, to which producers connect.
 * - `<history>/`: `events-<attempt>.jsonl`, `metrics-<attempt>.jsonl`, `job.json` and `final.json`.
 */
export class JobFiles {
  readonly #options: JobFilesOptions;
  readonly #historyPermission: number;
  readonly #closing = new AbortController();
  #publish = (): void => {};
  /** Resolves when `writeAddress` has published this attempt's address, or when `close` has been called. */
  readonly addressed = new Promise<void>((resolve) => {
    this.#publish = resolve;
  });
  #waiting: Snapshot | null = null;
  #writing: Promise<void> | null = null;
  readonly #events: string[] = [];
  readonly #eventsFile: RewrittenFile;
  #samples: () => readonly UsageSample[] = () => [];
  readonly #samplesFile: RewrittenFile;

  constructor(options: JobFilesOptions) {
    this.#options = options;
    this.#historyPermission = options.historyShared === true ? 0o640 : 0o600;
    const file = (kind: 'events' | 'metrics', content: () => readonly string[], pauseMs: () => number): RewrittenFile =>
      new RewrittenFile({
        storage: options.storage,
        uri: joinUri(options.history, historyFileName(kind, options.attempt)),
        permission: this.#historyPermission,
        content: () => Buffer.from(content().join('')),
        pauseMs,
        log: options.log,
      });
    this.#eventsFile = file(
      'events',
      () => this.#events,
      () => EVENTS_PAUSE_MS + this.#events.length,
    );
    const lines = (): string[] => this.#samples().map((sample) => `${JSON.stringify(sample)}\n`);
    this.#samplesFile = file('metrics', lines, () => SAMPLES_PAUSE_MS);
  }

  /**
   * Writes the newest snapshot, then calls `durable`, or `superseded` if a newer attempt has published its address. A new attempt publishes
   * its address before it reads the state. Therefore, either the new attempt reads this snapshot, or this attempt detects the new attempt
   * before it acts on the snapshot.
   */
  persist(snapshot: Snapshot, durable: (snapshot: Snapshot) => void, superseded: (attempt: number) => void): void {
    this.#waiting = snapshot;
    this.#writing ??= this.#writeSnapshots(durable, superseded).finally(() => {
      this.#writing = null;
    });
  }

  async #writeSnapshots(durable: (snapshot: Snapshot) => void, superseded: (attempt: number) => void): Promise<void> {
    let failures = 0;
    while (this.#waiting !== null && !this.#closing.signal.aborted) {
      const snapshot: Snapshot = this.#waiting;
      this.#waiting = null;
      try {
        await this.#stage(this.#stateUri(this.#options.attempt), snapshot);
        const newest = await this.newestAttempt();
        if (newest > this.#options.attempt) {
          superseded(newest);
          return;
        }
        failures = 0;
        durable(snapshot);
      } catch (error) {
        this.#options.log.warn({ error: messageOf(error) }, 'could not write the job state; trying again');
        this.#waiting ??= snapshot;
        failures++;
        await pause(backoffMs(failures, STORAGE_BACKOFF), this.#closing.signal);
      }
    }
  }

  /**
   * Writes a file that only the job's user may read. Fails if the staging folder does not exist. The folder may be missing because a client
   * that kills the job removes it, possibly before YARN has stopped this process.
   */
  async #stage(uri: string, content: object): Promise<void> {
    try {
      await this.#options.storage.write(uri, Buffer.from(JSON.stringify(content)), { permission: 0o600, makeParents: false });
    } catch (error) {
      if (error instanceof TonyError && error.code === 'NOT_FOUND') {
        await this.#lookForStaging();
      }
      throw error;
    }
  }

  async #lookForStaging(): Promise<void> {
    if ((await this.#options.storage.stat(this.#options.staging)) === null) {
      this.#options.gone();
    }
  }

  /** Returns the number of the newest attempt that has published its address, or 0 if there is none. */
  async newestAttempt(): Promise<number> {
    const address = await readIfStored(this.#options.storage, joinUri(this.#options.staging, 'am.json'));
    const { attempt } = address === null ? {} : (JSON.parse(address.toString()) as { attempt?: unknown });
    return typeof attempt === 'number' ? attempt : 0;
  }

  /** Reads the newest readable state that an earlier attempt stored. Returns null if there is none. */
  async #readSnapshot(): Promise<Snapshot | null> {
    for (let attempt = this.#options.attempt - 1; attempt >= 1; attempt--) {
      const uri = this.#stateUri(attempt);
      if ((await this.#options.storage.stat(uri)) === null) {
        continue;
      }
      try {
        return parseSnapshot((await this.#options.storage.read(uri)).toString());
      } catch (error) {
        if (!(error instanceof TonyError && error.code === 'STATE_UNREADABLE')) {
          throw error;
        }
        this.#options.log.error({ uri, error: error.message }, 'could not read the state of an earlier attempt');
      }
    }
    return null;
  }

  #stateUri(attempt: number): string {
    return joinUri(this.#options.staging, `state-${attempt}.json`);
  }

  /** Publishes this attempt's address. Retries until the address is written or `close` is called. */
  async writeAddress(address: Readonly<Record<string, string | number | SessionAddress | null>>): Promise<void> {
    await this.#retry('could not write the address of this ApplicationMaster; trying again', () =>
      this.#stage(joinUri(this.#options.staging, 'am.json'), address),
    );
    this.#publish();
  }

  /**
   * Writes the feed server's address and the producers' token. If a newer attempt has published its address, writes nothing, because
   * producers must connect to that attempt.
   */
  async writeFeedAddress(address: FeedAddress): Promise<void> {
    await this.#retry("could not write the address of the job's feeds; trying again", async () => {
      if ((await this.newestAttempt()) > this.#options.attempt) {
        return;
      }
      await this.#stage(joinUri(this.#options.staging, FEED_ADDRESS_FILE), address);
    });
  }

  /**
   * Reads the job's final status, if there is one, and the newest state that an earlier attempt stored. Retries while storage is
   * unavailable.
   */
  async recover(): Promise<{ final: JobStatus | null; snapshot: Snapshot | null }> {
    const read = await this.#retry('could not read the state of the earlier attempt; trying again', async () => {
      const [final, snapshot] = await Promise.all([this.#readFinal(), this.#readSnapshot()]);
      return { final, snapshot };
    });
    return read ?? { final: null, snapshot: null };
  }

  #retry<T>(message: string, action: () => Promise<T>): Promise<T | undefined> {
    return retryStorage(message, action, { log: this.#options.log, signal: this.#closing.signal });
  }

  /** Returns the size and modification time of a file in the staging folder. YARN requires both to localise the file. */
  async staged(name: string): Promise<Entry> {
    const uri = joinUri(this.#options.staging, name);
    const entry = await this.#options.storage.stat(uri);
    if (entry !== null) {
      return entry;
    }
    await this.#lookForStaging();
    throw new TonyError('NOT_FOUND', `${uri} does not exist.`, { hint: "Check whether the job's staging folder was removed." });
  }

  async writeFrozenJob(text: string): Promise<void> {
    await this.#options.storage.write(joinUri(this.#options.history, 'job.json'), Buffer.from(text), {
      permission: this.#historyPermission,
      ifAbsent: true,
    });
  }

  record(entry: HistoryEntry): void {
    this.#events.push(`${JSON.stringify(entry)}\n`);
    if (this.#events.length > MAXIMUM_EVENTS) {
      this.#events.splice(FIRST_EVENTS, Math.floor(MAXIMUM_EVENTS / 5));
    }
    this.#eventsFile.touch();
  }

  /** Schedules a write of the usage samples. Calls `samples` to get them when the write starts. */
  sampled(samples: () => readonly UsageSample[]): void {
    this.#samples = samples;
    this.#samplesFile.touch();
  }

  async earlier(): Promise<readonly EarlierAttempt[]> {
    const names = (await this.#options.storage.list(this.#options.history)).map(({ name }) => name);
    const text = async (kind: 'events' | 'metrics', attempt: number): Promise<string> => {
      const file = historyFiles(names, kind).find((each) => each.attempt === attempt);
      return file === undefined ? '' : (await this.#options.storage.read(joinUri(this.#options.history, file.name))).toString();
    };
    const attempts = Array.from({ length: this.#options.attempt - 1 }, (_, at) => at + 1);
    return Promise.all(
      attempts.map(async (attempt) => {
        const [events, samples] = await Promise.all([text('events', attempt), text('metrics', attempt)]);
        return { attempt, entries: parseEntries(events), samples: parseSamples(samples) };
      }),
    );
  }

  /**
   * Writes the final status, unless another attempt has stored one. Returns the job's valid final status, and whether that status has been
   * stored. Gives up if storage is unavailable for longer than `maxWaitMs`.
   */
  async writeFinal(status: JobStatus, maxWaitMs: number): Promise<{ status: JobStatus; written: boolean }> {
    const uri = joinUri(this.#options.history, 'final.json');
    const deadline = performance.now() + maxWaitMs;
    const write = async (): Promise<JobStatus> => {
      const content = Buffer.from(JSON.stringify(status));
      const first = await this.#options.storage.write(uri, content, { permission: this.#historyPermission, ifAbsent: true });
      return first ? status : (JSON.parse((await this.#options.storage.read(uri)).toString()) as JobStatus);
    };
    const onFailure = (error: unknown, _: number, pauseMs: number): void => {
      this.#options.log.warn({ error: messageOf(error) }, 'could not write the final state to the history');
      if (performance.now() + pauseMs > deadline) {
        throw error;
      }
    };
    return retry(write, { ...STORAGE_BACKOFF, onFailure }).then(
      (valid) => ({ status: valid, written: true }),
      () => ({ status, written: false }),
    );
  }

  async #readFinal(): Promise<JobStatus | null> {
    const uri = joinUri(this.#options.history, 'final.json');
    if ((await this.#options.storage.stat(uri)) === null) {
      return null;
    }
    return JSON.parse((await this.#options.storage.read(uri)).toString()) as JobStatus;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#writing, this.#eventsFile.close(), this.#samplesFile.close()]);
  }

  /** Removes the files that only a running job needs. If `everything` is true, removes the whole staging folder instead. */
  async removeStaging(everything: boolean): Promise<void> {
    if (everything) {
      await this.#options.storage.remove(this.#options.staging);
      return;
    }
    const names = (await this.#options.storage.list(this.#options.staging)).map((entry) => entry.name);
    const gone = names.filter((name) => name === 'am.json' || name === FEED_ADDRESS_FILE || /^(state|services)-\d+\.json$/.test(name));
    await Promise.all(gone.map((name) => this.#options.storage.remove(joinUri(this.#options.staging, name))));
  }
}
