import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { Origin } from './checkpoint-format.ts';

/** An unfinished checkpoint, to which several processes may write. Contains only JSON values. */
export interface PendingCheckpoint extends Origin {
  readonly step: number;
  /** URI of the folder that contains the checkpoint's files. */
  readonly uri: string;
}

/**
 * Manages the checkpoint folders (`step-100`, `step-200` and so on), but not the files in them. Readers see only complete checkpoints, and
 * a retired generation cannot add checkpoints. The subclasses implement this with the atomic operations that their storage provides.
 */
export abstract class CheckpointFolders {
  readonly dir: string;
  protected readonly storage: Storage;
  /** Name of the file that describes the other files in a checkpoint. A writer writes this file last. */
  protected readonly indexName: string;

  constructor(storage: Storage, dir: string, indexName: string) {
    this.storage = storage;
    this.dir = dir;
    this.indexName = indexName;
  }

  /**
   * Prevents all older generations of the application from writing. A generation must call this before it chooses the checkpoint to resume
   * from.
   */
  abstract retireOlderThan(origin: Origin): Promise<void>;
  /** Returns true if the generation has been retired. */
  protected abstract isFenced(origin: Origin): Promise<boolean>;
  /** Removes the unfinished files left by this generation's earlier attempts. Returns the URI of the folder for the new attempt's files. */
  protected abstract beginAttempt(step: number, origin: Origin): Promise<string>;
  /** Returns true if `begin` could have returned `pending`. Callers must check this, because `pending` may come from the network. */
  abstract isPendingHere(pending: PendingCheckpoint): boolean;
  /** Returns the name of the sub-folder with the pending checkpoint's files, or undefined if they are in the same folder as the index. */
  abstract subFolder(pending: PendingCheckpoint): string | undefined;
  /**
   * Completes a checkpoint after all files except the index have been written: adds the index, and replaces any existing checkpoint for the
   * same step. Callers must wrap the call in `unlessFenced`.
   * @param index JSON with the fields jobId, generation and `folder`, which is the result of `subFolder`.
   * @returns the checkpoint's URI.
   * @throws an error of any type if the generation has been retired.
   */
  abstract publish(pending: PendingCheckpoint, index: Buffer): Promise<string>;
  /** Hides a checkpoint from readers. Then removes the checkpoint if `isProtected` returns false, and makes it visible again otherwise. */
  abstract drop(step: number, isProtected: () => Promise<boolean>): Promise<void>;
  /** Resolves with the steps of all complete checkpoints, in any order. */
  protected abstract completeSteps(): Promise<number[]>;

  /**
   * Begins a checkpoint that several processes write. Each process writes its files to the returned folder. The process that called `begin`
   * then calls `publish`. A generation writes only one checkpoint at a time, so `begin` removes the files left by the generation's earlier
   * attempts.
   * @throws TonyError CHECKPOINT_FENCED if the generation has been retired.
   */
  async begin(step: number, origin: Origin): Promise<PendingCheckpoint> {
    const { jobId, generation } = origin;
    if (await this.isFenced(origin)) {
      throw fenced(generation, step);
    }
    return { step, jobId, generation, uri: await this.beginAttempt(step, origin) };
  }

  async unlessFenced<T>(pending: PendingCheckpoint, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (await this.isFenced(pending).catch(() => false)) {
        throw fenced(pending.generation, pending.step, error);
      }
      throw error;
    }
  }

  /** Resolves with the steps of all complete checkpoints, highest first. */
  async steps(): Promise<number[]> {
    return (await this.completeSteps()).sort((a, b) => b - a);
  }

  protected uriOf(step: number): string {
    return joinUri(this.dir, `step-${step}`);
  }

  /** Resolves with the steps of all checkpoint folders, including incomplete ones. */
  protected async stepFolders(): Promise<number[]> {
    return (await this.storage.list(this.dir)).flatMap(({ name, type }) => (type === 'folder' ? (stepOf(name) ?? []) : []));
  }
}

function fenced(generation: number, step: number, cause?: unknown): TonyError {
  return new TonyError('CHECKPOINT_FENCED', `generation ${generation} has ended: checkpoint step-${step} was not written`, { cause });
}

const STEP = /^step-(\d{1,15})$/;

/** Returns the step number in a checkpoint folder's name, or null for any other name. */
function stepOf(name: string): number | null {
  const digits = STEP.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

/** Returns an application's folder name. A standalone program has no application ID, so its folder is called `alone`. */
export function folderNameOf(jobId: string): string {
  return jobId === '' ? 'alone' : jobId;
}

/** Returns true if the application ID is safe in a path. With `/` or `..`, an ID could lead outside the checkpoint folder. */
export function isSafeId(jobId: string): boolean {
  return /^[\w-]*$/.test(jobId);
}
