import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { isObjectStoreUri } from '../../storage/uri.ts';
import type { Origin } from './checkpoint-format.ts';
import type { CheckpointPublication, PendingCheckpoint } from './checkpoint-publication.ts';
import { LoggingPublication } from './logging-publication.ts';
import { RenamingPublication } from './renaming-publication.ts';

/**
 * The checkpoint folders (`step-100`, `step-200` and so on), independent of their contents. In any storage, a folder becomes visible only
 * when it is complete. An abandoned generation cannot add folders.
 */
export class CheckpointFolders {
  readonly dir: string;
  readonly #publication: CheckpointPublication;

  /** @param indexName the file that describes the other files of a checkpoint; it is written last. */
  constructor(storage: Storage, dir: string, indexName: string) {
    this.dir = dir;
    const Publication = isObjectStoreUri(dir) ? LoggingPublication : RenamingPublication;
    this.#publication = new Publication(storage, dir, indexName);
  }

  /** Prevents all older generations of the application from writing. Call it before choosing the checkpoint to resume from. */
  async retireOlderThan(origin: Origin): Promise<void> {
    await this.#publication.retireOlderThan(origin);
  }

  /**
   * Begins a checkpoint that several processes write. Each process writes its files to the returned folder; the process that called
   * `begin` then calls `publish`. A generation writes one checkpoint at a time, so `begin` removes anything left by earlier attempts.
   * @throws TonyError CHECKPOINT_FENCED.
   */
  async begin(step: number, origin: Origin): Promise<PendingCheckpoint> {
    const { applicationId, generation } = origin;
    if (await this.#publication.isFenced(origin)) {
      throw fenced(generation, step);
    }
    return { step, applicationId, generation, uri: await this.#publication.begin(step, origin) };
  }

  /** Returns true if `begin` could have returned this folder. The pending checkpoint may come from the network. */
  isPendingHere(pending: PendingCheckpoint): boolean {
    return this.#publication.isPendingHere(pending);
  }

  async unlessFenced<T>(pending: PendingCheckpoint, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (await this.#publication.isFenced(pending).catch(() => false)) {
        throw fenced(pending.generation, pending.step, error);
      }
      throw error;
    }
  }

  /** Returns the sub-folder of the complete checkpoint that contains the files; undefined if they are beside the index. */
  subFolder(pending: PendingCheckpoint): string | undefined {
    return this.#publication.subFolder(pending);
  }

  /**
   * Completes a checkpoint, replacing any existing checkpoint of the same step. @param index JSON with the fields applicationId, generation
   * and `folder`, the result of `subFolder`
   * @returns the checkpoint's URI.
   */
  async publish(pending: PendingCheckpoint, index: Buffer): Promise<string> {
    return await this.#publication.publish(pending, index);
  }

  /** Hides a checkpoint from readers, then removes it unless `isProtected` now returns true. */
  async drop(step: number, isProtected: () => Promise<boolean>): Promise<void> {
    await this.#publication.drop(step, isProtected);
  }

  /** Resolves with the steps of all complete checkpoints, highest first. */
  async steps(): Promise<number[]> {
    return (await this.#publication.steps()).sort((a, b) => b - a);
  }
}

function fenced(generation: number, step: number, cause?: unknown): TonyError {
  return new TonyError('CHECKPOINT_FENCED', `generation ${generation} has ended: checkpoint step-${step} was not written`, { cause });
}
