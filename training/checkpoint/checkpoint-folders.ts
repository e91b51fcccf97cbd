import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { Origin } from './checkpoint-format.ts';

/** An unfinished checkpoint, to which several processes may contribute. Can be sent as JSON. */
export interface PendingCheckpoint extends Origin {
  readonly step: number;
  /** The folder that contains the checkpoint's files. */
  readonly uri: string;
}

/**
 * The checkpoint folders (`step-100`, `step-200` and so on), independent of their contents. In any storage, a folder becomes visible only
 * when it is complete. An abandoned generation cannot add folders. The protocol depends on what the storage can do atomically.
 */
export abstract class CheckpointFolders {
  readonly dir: string;
  protected readonly storage: Storage;
  /** The file that describes the other files of a checkpoint; it is written last. */
  protected readonly indexName: string;

  constructor(storage: Storage, dir: string, indexName: string) {
    this.storage = storage;
    this.dir = dir;
    this.indexName = indexName;
  }

  /** Prevents all older generations of the application from writing. Call it before choosing the checkpoint to resume from. */
  abstract retireOlderThan(origin: Origin): Promise<void>;
  /** Returns true if the generation has been retired. */
  protected abstract isFenced(origin: Origin): Promise<boolean>;
  /** Removes anything left by this generation's earlier attempts. Returns the URI of the folder for a new attempt's files. */
  protected abstract beginAttempt(step: number, origin: Origin): Promise<string>;
  /** Returns true if `begin` could have returned this folder. The pending checkpoint may come from the network. */
  abstract isPendingHere(pending: PendingCheckpoint): boolean;
  /** Returns the sub-folder of a complete checkpoint that contains the files of `pending`, or undefined if they are beside the index. */
  abstract subFolder(pending: PendingCheckpoint): string | undefined;
  /**
   * Completes a checkpoint whose files have been written: adds the index as the last file, and replaces any existing checkpoint of the same
   * step. Call it in `unlessFenced`.
   * @param index JSON with the fields applicationId, generation and `folder`, the result of `subFolder`
   * @returns the checkpoint's URI.
   * @throws an error of any type if the generation has been retired.
   */
  abstract publish(pending: PendingCheckpoint, index: Buffer): Promise<string>;
  /** Hides a checkpoint from readers, then removes it unless `isProtected` now returns true. */
  abstract drop(step: number, isProtected: () => Promise<boolean>): Promise<void>;
  /** Resolves with the steps of all complete checkpoints, in any order. */
  protected abstract completeSteps(): Promise<number[]>;

  /**
   * Begins a checkpoint that several processes write. Each process writes its files to the returned folder; the process that called
   * `begin` then calls `publish`. A generation writes one checkpoint at a time, so `begin` removes anything left by earlier attempts.
   * @throws TonyError CHECKPOINT_FENCED.
   */
  async begin(step: number, origin: Origin): Promise<PendingCheckpoint> {
    const { applicationId, generation } = origin;
    if (await this.isFenced(origin)) {
      throw fenced(generation, step);
    }
    return { step, applicationId, generation, uri: await this.beginAttempt(step, origin) };
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

  /** Resolves with the steps that have a folder. */
  protected async stepFolders(): Promise<number[]> {
    return (await this.storage.list(this.dir)).flatMap(({ name, type }) => (type === 'folder' ? (stepOf(name) ?? []) : []));
  }
}

function fenced(generation: number, step: number, cause?: unknown): TonyError {
  return new TonyError('CHECKPOINT_FENCED', `generation ${generation} has ended: checkpoint step-${step} was not written`, { cause });
}

const STEP = /^step-(\d{1,15})$/;

/** Returns the step in a checkpoint folder's name, or null for other names. */
function stepOf(name: string): number | null {
  const digits = STEP.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

/** Returns the name of an application's folder below `.pending`. A standalone program has an empty application ID. */
export function folderNameOf(applicationId: string): string {
  return applicationId === '' ? 'alone' : applicationId;
}

/** Returns true if the application ID is safe to use as a name. An ID with `/` or `..` would lead outside the checkpoint folder. */
export function isSafeId(applicationId: string): boolean {
  return /^[\w-]*$/.test(applicationId);
}
