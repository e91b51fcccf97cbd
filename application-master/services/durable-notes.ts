import { pause } from '../../platform/async/backoff.ts';
import type { Logger } from '../../platform/log.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { retryStorage } from '../records/storage-retry.ts';

export interface DurableNotesOptions {
  readonly storage: Pick<Storage, 'read' | 'stat' | 'write'>;
  readonly staging: string;
  readonly attempt: number;
  /** Returns the complete state to store. */
  readonly content: () => string;
  /** Returns the newest attempt that has published its address. */
  readonly newestAttempt: () => Promise<number>;
  /** Minimum interval in ms between two writes, to limit the load on the NameNode. */
  readonly pauseMs: number;
  readonly log: Logger;
}

/**
 * Stores in `<staging>/services-<attempt>.json` which splits and chunks are assigned to which readers. Each assignment is stored before it
 * is sent, and concurrent assignments share one write. The next attempt finds every assignment that was sent, because it publishes its
 * address before it reads the file, and this attempt sends an assignment only if there is still no newer address after the write.
 */
export class DurableNotes {
  readonly #options: DurableNotesOptions;
  readonly #closing = new AbortController();
  /** The next write, which has not started yet. Concurrent calls to `save` share this write. */
  #next: Promise<boolean> | null = null;
  #running: Promise<unknown> = Promise.resolve();
  #begunAt = Number.NEGATIVE_INFINITY;

  constructor(options: DurableNotesOptions) {
    this.#options = options;
  }

  /**
   * Reads the state that the newest earlier attempt has stored. Returns null if no attempt has stored any. Retries while storage is
   * unavailable.
   */
  async earlier(): Promise<string | null> {
    const { attempt, storage } = this.#options;
    const read = await this.#retry('could not read the data assignments of an earlier attempt; trying again', async () => {
      for (let older = attempt - 1; older >= 1; older--) {
        const uri = this.#uri(older);
        if ((await storage.stat(uri)) !== null) {
          return (await storage.read(uri)).toString();
        }
      }
      return null;
    });
    return read ?? null;
  }

  /** Resolves to true when the current state has been stored, or to false if another attempt has taken over. */
  save(): Promise<boolean> {
    this.#next ??= this.#running.then(async () => {
      const wait = this.#begunAt + this.#options.pauseMs - performance.now();
      if (wait > 0) {
        await pause(wait, this.#closing.signal);
      }
      this.#begunAt = performance.now();
      this.#next = null;
      const writing = this.#write();
      this.#running = writing;
      return await writing;
    });
    return this.#next;
  }

  async #write(): Promise<boolean> {
    const { attempt, content, newestAttempt, storage } = this.#options;
    const isOurs = await this.#retry('could not write the data assignments; trying again', async () => {
      // Do not create parent folders. If the staging folder is missing, the job has ended.
      await storage.write(this.#uri(attempt), Buffer.from(content()), { permission: 0o600, makeParents: false });
      return (await newestAttempt()) <= attempt;
    });
    return isOurs ?? false;
  }

  close(): void {
    this.#closing.abort();
  }

  #uri(attempt: number): string {
    return joinUri(this.#options.staging, `services-${attempt}.json`);
  }

  #retry<T>(message: string, action: () => Promise<T>): Promise<T | undefined> {
    return retryStorage(message, action, { log: this.#options.log, signal: this.#closing.signal });
  }
}
