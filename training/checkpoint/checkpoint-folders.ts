import { randomUUID } from 'node:crypto';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { Origin } from './checkpoint-format.ts';

/** The folder for unfinished checkpoints and tombstones. */
export const PENDING = '.pending';
const STEP = /^step-(\d{1,15})$/;
/** The maximum number of attempts to replace a generation's folder. An old writer may recreate the folder between two attempts. */
const RETIRE_TRIES = 100;

/** An unfinished checkpoint, to which several processes may contribute. Can be sent as JSON. */
export interface PendingCheckpoint extends Origin {
  readonly step: number;
  readonly uri: string;
}

/**
 * The folder layout of checkpoints, independent of their content:
 *
 *   step-100/ step-200/ ...                          complete checkpoints
 *   .pending/APPLICATION/generation-3/step-300-.../  a checkpoint that generation 3 is writing
 *   .pending/APPLICATION/generation-1, ...           files: tombstones of generations that may no longer write
 *
 * A writer creates its files below its generation's folder and renames the step's folder into place. Both operations fail if a tombstone
 * file has replaced the generation's folder. A reader first retires all older generations. They can then no longer add checkpoints, so the
 * newest checkpoint that the reader finds stays the newest.
 */
export class CheckpointFolders {
  readonly dir: string;
  readonly #storage: Storage;

  constructor(storage: Storage, dir: string) {
    this.#storage = storage;
    this.dir = dir;
  }

  /** Prevents all older generations of the application from writing. Call it before choosing the checkpoint to resume from. */
  async retireOlderThan({ applicationId, generation }: Origin): Promise<void> {
    const pending = joinUri(this.dir, PENDING);
    const own = joinUri(pending, folderNameOf(applicationId));
    const there = new Map((await this.#storage.list(own)).map((entry) => [entry.name, entry.type]));
    for (let older = 1; older < generation; older++) {
      if (there.get(`generation-${older}`) !== 'file') {
        await this.#retire(this.#folderOf({ applicationId, generation: older }), older);
      }
    }
    for (const entry of await this.#storage.list(pending)) {
      if (entry.name.startsWith('retired-') || entry.name.startsWith('pruned-')) {
        await this.#storage.remove(entry.uri);
      }
    }
  }

  async #retire(uri: string, generation: number): Promise<void> {
    for (let attempt = 0; attempt < RETIRE_TRIES; attempt++) {
      const entry = await this.#storage.stat(uri);
      if (entry?.type === 'file') {
        return;
      }
      if (entry?.type === 'folder') {
        await this.#storage.rename(uri, joinUri(this.dir, PENDING, `retired-${generation}-${randomUUID()}`));
      } else if (await this.#storage.write(uri, Buffer.from('This generation may no longer write checkpoints.\n'), { ifAbsent: true })) {
        return;
      }
    }
    throw new TonyError('CHECKPOINT_FAILED', `generation ${generation} cannot be prevented from writing to ${this.dir}`);
  }

  /**
   * Begins a checkpoint that several processes write. Each process writes its files to the returned folder; the process that called
   * `begin` then calls `publish`. A generation writes one checkpoint at a time, so `begin` removes anything left by earlier attempts.
   * @throws TonyError CHECKPOINT_FENCED.
   */
  async begin(step: number, origin: Origin): Promise<PendingCheckpoint> {
    const { applicationId, generation } = origin;
    const mine = this.#folderOf(origin);
    if ((await this.#storage.stat(mine))?.type === 'file') {
      throw fenced(generation, step);
    }
    for (const left of await this.#storage.list(mine)) {
      await this.#storage.remove(left.uri);
    }
    // The folder name is unique, so late writes from an earlier attempt go to another folder.
    return { step, applicationId, generation, uri: joinUri(mine, `step-${step}-${randomUUID()}`) };
  }

  /**
   * Returns true if `begin` could have returned this folder. Rejects application IDs with `/` or `..`, because their paths would leave
   * the checkpoint folder.
   */
  isPendingHere({ step, applicationId, generation, uri }: PendingCheckpoint): boolean {
    const [name = ''] = uri.split('/').slice(-1);
    const isName = /^[\w-]*$/.test(applicationId) && name.startsWith(`step-${step}-`) && /^[\w-]+$/.test(name);
    return isName && uri === joinUri(this.#folderOf({ applicationId, generation }), name);
  }

  #folderOf({ applicationId, generation }: Origin): string {
    return joinUri(this.dir, PENDING, folderNameOf(applicationId), `generation-${generation}`);
  }

  async unlessFenced<T>(pending: PendingCheckpoint, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if ((await this.#storage.stat(this.#folderOf(pending)).catch(() => null))?.type === 'file') {
        throw fenced(pending.generation, pending.step, error);
      }
      throw error;
    }
  }

  /** Renames a complete checkpoint into place, replacing any existing checkpoint of the same step. @returns the checkpoint's URI. */
  async publish(pending: PendingCheckpoint): Promise<string> {
    const target = joinUri(this.dir, `step-${pending.step}`);
    await this.#moveIntoPlace(pending.uri, target, this.#folderOf(pending));
    return target;
  }

  async #moveIntoPlace(pending: string, target: string, mine: string): Promise<void> {
    if (await this.#storage.rename(pending, target)) {
      return;
    }
    if ((await this.#storage.stat(target)) === null) {
      throw new TonyError('CHECKPOINT_FAILED', `${pending} disappeared before it was renamed`);
    }
    const replaced = joinUri(mine, `replaced-${randomUUID()}`);
    await this.#storage.rename(target, replaced);
    if (!(await this.#storage.rename(pending, target))) {
      throw new TonyError('CHECKPOINT_FAILED', `${pending} could not be renamed to ${target}`);
    }
    await this.#storage.remove(replaced);
  }

  /** Resolves with the steps of all complete checkpoints, highest first. */
  async steps(): Promise<number[]> {
    const entries = await this.#storage.list(this.dir);
    return entries
      .flatMap(({ name, type }) => {
        const match = type === 'folder' ? STEP.exec(name) : null;
        return match === null ? [] : [Number(match[1])];
      })
      .sort((a, b) => b - a);
  }
}

/** Returns the name of an application's folder below `.pending`. A standalone program has an empty application ID. */
function folderNameOf(applicationId: string): string {
  return applicationId === '' ? 'alone' : applicationId;
}

function fenced(generation: number, step: number, cause?: unknown): TonyError {
  return new TonyError('CHECKPOINT_FENCED', `generation ${generation} has ended: checkpoint step-${step} was not written`, { cause });
}
