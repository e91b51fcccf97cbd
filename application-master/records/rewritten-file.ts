import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Storage } from '../../storage/storage.ts';

export interface RewrittenFileOptions {
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
