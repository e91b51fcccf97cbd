import { randomUUID } from 'node:crypto';
import { TonyError } from '../../platform/errors.ts';
import { joinUri, parentUri } from '../../storage/uri.ts';
import { CheckpointFolders, folderNameOf, isSafeId, type PendingCheckpoint } from './checkpoint-folders.ts';
import type { Origin } from './checkpoint-format.ts';

const PENDING = '.pending';
/**
 * Maximum number of attempts to replace a generation's folder with a tombstone. An old writer may recreate the folder between two attempts.
 */
const RETIRE_TRIES = 100;

/**
 * Publishes checkpoints by renaming folders:
 *
 *   .pending/APPLICATION/generation-3/step-300-.../  a checkpoint that generation 3 is writing
 *   .pending/APPLICATION/generation-1, ...           files: tombstones of generations that may no longer write
 *
 * A writer creates its files in its generation's folder, and then renames the step's folder to publish it. Both operations fail if a
 * tombstone has replaced the generation's folder. A reader retires all older generations before it looks for the newest checkpoint, so the
 * checkpoint that it finds stays the newest.
 */
export class RenamingPublication extends CheckpointFolders {
  async retireOlderThan({ jobId, generation }: Origin): Promise<void> {
    const pending = joinUri(this.dir, PENDING);
    const own = joinUri(pending, folderNameOf(jobId));
    const there = new Map((await this.storage.list(own)).map((entry) => [entry.name, entry.type]));
    for (let older = 1; older < generation; older++) {
      if (there.get(`generation-${older}`) !== 'file') {
        await this.#retire(this.#folderOf({ jobId, generation: older }), older);
      }
    }
    for (const entry of await this.storage.list(pending)) {
      if (entry.name.startsWith('retired-') || entry.name.startsWith('pruned-')) {
        await this.storage.remove(entry.uri);
      }
    }
  }

  async #retire(uri: string, generation: number): Promise<void> {
    for (let attempt = 0; attempt < RETIRE_TRIES; attempt++) {
      const entry = await this.storage.stat(uri);
      if (entry?.type === 'file') {
        return;
      }
      if (entry?.type === 'folder') {
        await this.storage.rename(uri, joinUri(this.dir, PENDING, `retired-${generation}-${randomUUID()}`));
      } else if (await this.storage.write(uri, Buffer.from('This generation may no longer write checkpoints.\n'), { ifAbsent: true })) {
        return;
      }
    }
    throw new TonyError('CHECKPOINT_FAILED', `could not stop generation ${generation} from writing to ${this.dir}`);
  }

  protected async isFenced(origin: Origin): Promise<boolean> {
    return (await this.storage.stat(this.#folderOf(origin)))?.type === 'file';
  }

  protected async beginAttempt(step: number, origin: Origin): Promise<string> {
    const mine = this.#folderOf(origin);
    for (const left of await this.storage.list(mine)) {
      await this.storage.remove(left.uri);
    }
    // The folder name is unique, so that late writes from an earlier attempt go to another folder.
    return joinUri(mine, `step-${step}-${randomUUID()}`);
  }

  isPendingHere({ step, jobId, generation, uri }: PendingCheckpoint): boolean {
    const [name = ''] = uri.split('/').slice(-1);
    const isName = isSafeId(jobId) && name.startsWith(`step-${step}-`) && /^[\w-]+$/.test(name);
    return isName && uri === joinUri(this.#folderOf({ jobId, generation }), name);
  }

  subFolder(): undefined {
    return undefined;
  }

  async publish(pending: PendingCheckpoint, index: Buffer): Promise<string> {
    const { uri, step } = pending;
    await this.storage.write(joinUri(uri, this.indexName), index);
    const target = this.uriOf(step);
    if (await this.storage.rename(uri, target)) {
      return target;
    }
    if ((await this.storage.stat(target)) === null) {
      throw new TonyError('CHECKPOINT_FAILED', `${uri} disappeared before it was renamed`);
    }
    const replaced = joinUri(this.#folderOf(pending), `replaced-${randomUUID()}`);
    await this.storage.rename(target, replaced);
    if (!(await this.storage.rename(uri, target))) {
      throw new TonyError('CHECKPOINT_FAILED', `${uri} could not be renamed to ${target}`);
    }
    await this.storage.remove(replaced);
    return target;
  }

  /**
   * Renames the checkpoint before it calls `isProtected`, which avoids a race with `setBest` and `hold`. If one of them writes a mark
   * before that call, this method sees the mark and restores the checkpoint. If one of them writes a mark later, it finds that the
   * checkpoint does not exist.
   */
  async drop(step: number, isProtected: () => Promise<boolean>): Promise<void> {
    const uri = this.uriOf(step);
    const aside = joinUri(this.dir, PENDING, `pruned-${randomUUID()}`, `step-${step}`);
    if (!(await this.storage.rename(uri, aside))) {
      return;
    }
    if (await isProtected()) {
      await this.storage.rename(aside, uri);
    }
    await this.storage.remove(parentUri(aside));
  }

  protected async completeSteps(): Promise<number[]> {
    return await this.stepFolders();
  }

  #folderOf({ jobId, generation }: Origin): string {
    return joinUri(this.dir, PENDING, folderNameOf(jobId), `generation-${generation}`);
  }
}
