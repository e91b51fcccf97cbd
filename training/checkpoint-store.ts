import { randomUUID } from 'node:crypto';
import { messageOf, TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { describeSnapshot, MANIFEST, type Manifest, parseManifest, parseTensors, type Snapshot, TENSORS } from './checkpoint-format.ts';

const PENDING = '.pending';
const STEP = /^step-(\d{1,15})$/;
/** A generation's folder may be made again by its old writer between two looks; not for ever. */
const RETIRE_TRIES = 100;

export interface StoredCheckpoint extends Snapshot {
  readonly uri: string;
  readonly manifest: Manifest;
}

/**
 * The checkpoints of a job in one folder:
 *
 *   step-100/ step-200/ ...                      whole ones
 *   .pending/generation-3/step-300/              being written by generation 3
 *   .pending/generation-1, .pending/generation-2 files: tombstones of generations that may write no more
 *
 * A writer makes its files below its generation's folder and renames the step's folder into place. Where a file has that folder's name,
 * neither works any more: whoever has retired a generation can choose a checkpoint without fearing that a newer one still appears.
 */
export class CheckpointStore {
  readonly dir: string;
  readonly #storage: Storage;

  constructor(storage: Storage, dir: string) {
    this.#storage = storage;
    this.dir = dir;
  }

  /** Fences off every generation before this one. To be done before a checkpoint is chosen to go on from. */
  async retireOlderThan(generation: number): Promise<void> {
    const pending = joinUri(this.dir, PENDING);
    const there = new Map((await this.#storage.list(pending)).map((entry) => [entry.name, entry.type]));
    for (let older = 1; older < generation; older++) {
      if (there.get(`generation-${older}`) !== 'file') {
        await this.#retire(joinUri(pending, `generation-${older}`), older);
      }
    }
    for (const entry of await this.#storage.list(pending)) {
      if (entry.name.startsWith('retired-')) {
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
      } else if (await this.#storage.write(uri, Buffer.from('This generation writes no more.\n'), { ifAbsent: true })) {
        return;
      }
    }
    throw new TonyError('CHECKPOINT_FAILED', `generation ${generation} cannot be kept from writing to ${this.dir}`);
  }

  /**
   * Writes a checkpoint, whole or not at all.
   * @throws TonyError CHECKPOINT_FENCED when a newer generation has taken over.
   */
  async save(snapshot: Snapshot, origin: { readonly applicationId: string; readonly generation: number }): Promise<string> {
    const { generation, applicationId } = origin;
    const name = `step-${snapshot.position.step}`;
    const mine = joinUri(this.dir, PENDING, `generation-${generation}`);
    const [pending, target] = [joinUri(mine, name), joinUri(this.dir, name)];
    try {
      await this.#storage.remove(pending);
      const { manifest, data } = describeSnapshot(snapshot, { applicationId, generation, createdAt: new Date().toISOString() });
      await this.#storage.write(joinUri(pending, TENSORS), inPieces(data));
      await this.#storage.write(joinUri(pending, MANIFEST), manifest);
      await this.#moveIntoPlace(pending, target, mine);
    } catch (error) {
      if ((await this.#storage.stat(mine).catch(() => null))?.type === 'file') {
        throw new TonyError('CHECKPOINT_FENCED', `generation ${generation} is over: checkpoint ${name} was not written`, { cause: error });
      }
      throw error;
    }
    return target;
  }

  async #moveIntoPlace(pending: string, target: string, mine: string): Promise<void> {
    if (await this.#storage.rename(pending, target)) {
      return;
    }
    if ((await this.#storage.stat(target)) === null) {
      throw new TonyError('CHECKPOINT_FAILED', `${pending} has disappeared before it was renamed`);
    }
    // Of this step there is one from before: a damaged one that was skipped, or one that was not marked as final.
    const replaced = joinUri(mine, `replaced-${randomUUID()}`);
    await this.#storage.rename(target, replaced);
    if (!(await this.#storage.rename(pending, target))) {
      throw new TonyError('CHECKPOINT_FAILED', `${pending} could not be renamed to ${target}`);
    }
    await this.#storage.remove(replaced);
  }

  /** Drops all but the newest `keep` up to `step`. Later ones are left alone: they are of a run before, and this one will replace them. */
  async prune(step: number, keep: number): Promise<void> {
    const steps = (await this.steps()).filter((each) => each <= step);
    for (const old of steps.slice(Math.max(1, keep))) {
      await this.#storage.remove(joinUri(this.dir, `step-${old}`));
    }
  }

  /** Newest first. */
  async steps(): Promise<number[]> {
    const entries = await this.#storage.list(this.dir);
    return entries
      .flatMap(({ name, type }) => {
        const match = type === 'folder' ? STEP.exec(name) : null;
        return match === null ? [] : [Number(match[1])];
      })
      .sort((a, b) => b - a);
  }

  /** @throws TonyError CHECKPOINT_DAMAGED, or NOT_FOUND when it (or a file of it) is not there. */
  async read(step: number): Promise<StoredCheckpoint> {
    const uri = joinUri(this.dir, `step-${step}`);
    const manifest = await this.manifest(step);
    const entry = await this.#storage.stat(joinUri(uri, TENSORS));
    const expected = manifest.files[0]?.bytes ?? 0;
    if (entry !== null && entry.size !== expected) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${uri}/${TENSORS} has ${entry.size} bytes instead of ${expected}`);
    }
    const tensors = parseTensors(manifest, await this.#storage.read(joinUri(uri, TENSORS)), uri);
    return { uri, manifest, position: manifest.position, tensors };
  }

  /** What a checkpoint says of itself; its tensors are not looked at. */
  async manifest(step: number): Promise<Manifest> {
    const uri = joinUri(this.dir, `step-${step}`);
    const manifest = parseManifest(await this.#storage.read(joinUri(uri, MANIFEST)), uri);
    if (manifest.position.step !== step) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${uri} holds step ${manifest.position.step}`);
    }
    return manifest;
  }

  /** The newest that verifies; every one that does not is told to `onSkipped`. null when there is none. */
  async newest(onSkipped: (message: string) => void): Promise<StoredCheckpoint | null> {
    for (const step of await this.steps()) {
      try {
        return await this.read(step);
      } catch (error) {
        if (!isDamage(error)) {
          throw error;
        }
        onSkipped(`checkpoint step-${step} is skipped: ${messageOf(error)}`);
      }
    }
    return null;
  }
}

/** What a checkpoint itself is to blame for; a NameNode that is away is not. */
export function isDamage(error: unknown): boolean {
  return (
    error instanceof TonyError && (error.code === 'CHECKPOINT_DAMAGED' || error.code === 'NOT_FOUND' || error.code === 'STORAGE_REFUSED')
  );
}

const WRITE_BYTES = 1024 * 1024;

async function* inPieces(data: readonly Uint8Array[]): AsyncIterable<Uint8Array> {
  for (const bytes of data) {
    for (let at = 0; at < bytes.length; at += WRITE_BYTES) {
      yield bytes.subarray(at, at + WRITE_BYTES);
    }
  }
}
