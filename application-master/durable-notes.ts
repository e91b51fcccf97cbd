import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../conf/log.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { persistently } from './persistently.ts';

export interface DurableNotesOptions {
  readonly storage: Pick<Storage, 'read' | 'stat' | 'write'>;
  readonly staging: string;
  readonly attempt: number;
  /** All that is to be known, as it is now. */
  readonly content: () => string;
  /** Of those that have said where they are. */
  readonly newestAttempt: () => Promise<number>;
  /** Between the beginnings of two writes, at least (ms): a NameNode has others to serve. */
  readonly pauseMs: number;
  readonly log: Logger;
}

/**
 * What an attempt of the ApplicationMaster promises, written down before it is said: `<staging>/services-<attempt>.json`. Many promises are
 * written at once. An attempt that has been superseded promises nothing any more: either its successor has read what it wrote, or it is told.
 */
export class DurableNotes {
  readonly #options: DurableNotesOptions;
  readonly #closing = new AbortController();
  /** The write that has not begun: whoever wants something written joins it. */
  #next: Promise<boolean> | null = null;
  #running: Promise<unknown> = Promise.resolve();
  #begunAt = Number.NEGATIVE_INFINITY;

  constructor(options: DurableNotesOptions) {
    this.#options = options;
  }

  /** What the newest earlier attempt has left; null when there is nothing. Storage that is away is waited for. */
  async earlier(): Promise<string | null> {
    const { attempt, storage } = this.#options;
    const read = await this.#persistently('what was promised before cannot be read', async () => {
      for (let older = attempt - 1; older >= 1; older--) {
        const uri = this.#uri(older);
        if ((await storage.stat(uri)) !== null) return (await storage.read(uri)).toString();
      }
      return null;
    });
    return read ?? null;
  }

  /** True when all that is known now is durable; false when this attempt has no say any more. */
  save(): Promise<boolean> {
    this.#next ??= this.#running.then(async () => {
      const pause = this.#begunAt + this.#options.pauseMs - performance.now();
      if (pause > 0) await delay(pause, undefined, { signal: this.#closing.signal }).catch(() => {});
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
    const isOurs = await this.#persistently('what was promised could not be written', async () => {
      // A job whose folder has been cleared away has ended.
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

  /** Undefined when this was closed before it succeeded. */
  #persistently<T>(complaint: string, action: () => Promise<T>): Promise<T | undefined> {
    return persistently(complaint, action, { log: this.#options.log, signal: this.#closing.signal });
  }
}
