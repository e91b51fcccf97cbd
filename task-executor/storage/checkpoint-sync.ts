import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { backoffMs, pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { SaveOptions } from './file-checkpoints.ts';
import { InvalidVersion, type LocalVersion, markedVersions, stageVersion } from './local-versions.ts';

/** Interval in ms at which the folder is listed. */
const POLL_MS = 1_000;
const BACKOFF = { firstMs: 1_000, mostMs: 30_000 };

export interface CheckpointSyncOptions {
  /** Absolute path of the folder to which the program writes. */
  readonly folder: string;
  /** Absolute path of a folder for hard links to the program's files, on the same file system. */
  readonly scratch: string;
  /** Step of the checkpoint that was restored for this run, or -1 if there was none. Only versions with later steps are stored. */
  readonly restoredStep: number;
  readonly save: (step: number, folder: string, signal: AbortSignal, options: SaveOptions) => Promise<unknown>;
  readonly onStored: (step: number) => void;
  readonly onNotice: (message: string) => void;
}

/**
 * While the program is running, stores versions from a local folder as checkpoints. Stores one version at a time, and always the newest. If
 * storage is not available, retries until `finish` or `abort` is called. See local-versions.ts for when a version is complete.
 */
export class CheckpointSync {
  readonly #options: CheckpointSyncOptions;
  readonly #stop = new AbortController();
  readonly #wake = new AbortController();
  readonly #loop: Promise<void>;
  /** The marker's modification time for each version that cannot be stored. If the marker becomes newer, the version is tried again. */
  readonly #rejected = new Map<string, { readonly markedAt: bigint; readonly error: unknown }>();
  readonly #ignored = new Set<string>();
  #stored: number;
  #failures = 0;
  #lastError: unknown = null;
  #ending = false;
  #deadline: NodeJS.Timeout | null = null;

  constructor(options: CheckpointSyncOptions) {
    this.#options = options;
    this.#stored = options.restoredStep;
    this.#loop = this.#run();
    this.#loop.catch(() => {});
  }

  /**
   * Stores the newest version after the program has exited. Resolves when this version has been stored.
   * @throws TonyError CHECKPOINT_FAILED if the version is not valid or cannot be stored in time, CHECKPOINT_FENCED
   */
  async finish(withinMs: number): Promise<void> {
    this.#ending = true;
    this.limit(withinMs);
    this.#wake.abort();
    try {
      await this.#loop;
    } finally {
      this.abort();
    }
    const [newest] = await this.#versions();
    const rejected = newest && this.#rejected.get(newest.name);
    if (newest !== undefined && rejected !== undefined && newest.step > this.#stored) {
      throw rejected.error;
    }
  }

  /** Replaces the time limit that was passed to `finish`. */
  limit(withinMs: number): void {
    if (this.#ending) {
      clearTimeout(this.#deadline ?? undefined);
      this.#deadline = setTimeout(() => this.#stop.abort(), withinMs);
    }
  }

  abort(): void {
    clearTimeout(this.#deadline ?? undefined);
    this.#stop.abort();
    this.#wake.abort();
  }

  async #run(): Promise<void> {
    for (;;) {
      if (this.#stop.signal.aborted) {
        const reason = this.#lastError === null ? '' : `: ${messageOf(this.#lastError)}`;
        throw new TonyError('CHECKPOINT_FAILED', `the newest checkpoint could not be stored in time${reason}`);
      }
      // Read the flag before listing the folder, because `finish` may be called while the folder is being listed.
      const ending = this.#ending;
      try {
        const version = (await this.#versions()).find(({ step, name, markedAt }) => {
          return step > this.#stored && this.#rejected.get(name)?.markedAt !== markedAt;
        });
        if (version !== undefined) {
          await this.#store(version);
        } else if (ending) {
          return;
        } else {
          await pause(POLL_MS, this.#wake.signal);
        }
        this.#failures = 0;
      } catch (error) {
        await this.#failed(error);
      }
    }
  }

  #versions(): Promise<LocalVersion[]> {
    return markedVersions(this.#options.folder, (name) => {
      if (!this.#ignored.has(name)) {
        this.#ignored.add(name);
        this.#options.onNotice(`${name} is not stored as a checkpoint, because its name contains no step number.`);
      }
    });
  }

  async #store(version: LocalVersion): Promise<void> {
    const { folder, scratch, save, onStored } = this.#options;
    const into = path.join(scratch, `sync-${randomUUID()}`);
    try {
      const staged = await stageVersion(folder, version, into);
      if (staged !== null) {
        await save(version.step, staged.folder, this.#stop.signal, staged);
        this.#stored = version.step;
        onStored(version.step);
      }
    } catch (error) {
      if (!(error instanceof InvalidVersion)) {
        throw error;
      }
      this.#rejected.set(version.name, { markedAt: version.markedAt, error });
      this.#options.onNotice(`${messageOf(error)}, so it is not stored as a checkpoint.`);
    } finally {
      await rm(into, { recursive: true, force: true });
    }
  }

  async #failed(error: unknown): Promise<void> {
    if (error instanceof TonyError && error.code === 'CHECKPOINT_FENCED') {
      throw error;
    }
    this.#lastError = error;
    this.#failures += 1;
    if (this.#failures === 1) {
      this.#options.onNotice(`The newest checkpoint could not be stored; trying again: ${messageOf(error)}`);
    }
    await pause(backoffMs(this.#failures, BACKOFF), this.#stop.signal);
  }
}
