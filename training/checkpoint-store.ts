import { randomUUID } from 'node:crypto';
import { messageOf, TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri, parentUri } from '../storage/uri.ts';
import { type BestCheckpoint, encodeBest, encodeHeld, parseBest, parseHeld } from './checkpoint-best.ts';
import {
  encodeManifest,
  MANIFEST,
  type Manifest,
  notThereOnce,
  type Origin,
  parseManifest,
  type ShardDescription,
  type Snapshot,
  type StoredTensor,
  shardName,
  type TrainingPosition,
} from './checkpoint-format.ts';
import { readTensorsOf, writeShardFile } from './checkpoint-shard.ts';
import { CheckpointThread } from './checkpoint-thread.ts';

const PENDING = '.pending';
const HELD = '.held';
const BEST = 'best.json';
const STEP = /^step-(\d{1,15})$/;
/** A generation's folder may be made again by its old writer between two looks; not for ever. */
const RETIRE_TRIES = 100;

/** A checkpoint whose manifest has been read. It may travel as JSON. */
export interface OpenedCheckpoint {
  readonly uri: string;
  readonly manifest: Manifest;
  readonly position: TrainingPosition;
}

export interface StoredCheckpoint extends OpenedCheckpoint {
  readonly tensors: readonly StoredTensor[];
}

/** A checkpoint that is being written, by one process or by several. It may travel as JSON. */
export interface PendingCheckpoint extends Origin {
  readonly step: number;
  readonly uri: string;
}

/**
 * The checkpoints of a job in one folder:
 *
 *   step-100/ step-200/ ...                          whole ones
 *   best.json                                        which of them an evaluator has found best: it is kept
 *   .held/evaluator-0.json                           which of them somebody is reading: it is kept
 *   .pending/APPLICATION/generation-3/step-300-.../  being written by generation 3
 *   .pending/APPLICATION/generation-1, ...           files: tombstones of generations that may write no more
 *
 * A writer makes its files below its generation's folder and renames the step's folder into place. Where a file has that folder's name,
 * neither works any more: whoever has retired a generation can choose a checkpoint without fearing that a newer one still appears.
 */
export class CheckpointStore {
  readonly dir: string;
  readonly #storage: Storage;
  readonly #openThread: () => CheckpointThread | null;

  /** @param openThread gives the thread that `save` works in, where there is one. */
  constructor(storage: Storage, dir: string, openThread: () => CheckpointThread | null = () => null) {
    this.dir = dir;
    this.#storage = storage;
    this.#openThread = openThread;
  }

  /** Fences off every generation of the application before this one. To be done before a checkpoint is chosen to go on from. */
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
      } else if (await this.#storage.write(uri, Buffer.from('This generation writes no more.\n'), { ifAbsent: true })) {
        return;
      }
    }
    throw new TonyError('CHECKPOINT_FAILED', `generation ${generation} cannot be kept from writing to ${this.dir}`);
  }

  /**
   * Writes a checkpoint, whole or not at all. Until it has settled nobody else may read or change the snapshot's bytes.
   * @throws TonyError CHECKPOINT_FENCED when a newer generation has taken over.
   */
  async save(snapshot: Snapshot, origin: Origin): Promise<string> {
    const { position, tensors } = snapshot;
    const thread = CheckpointThread.canTake(tensors) ? this.#openThread() : null;
    if (thread !== null) {
      return await thread.save(this.dir, snapshot, origin);
    }
    const pending = await this.beginSave(position.step, origin);
    const shard = await this.writeShard(pending, { index: 0, count: 1 }, tensors);
    return await this.commit(pending, position, [shard]);
  }

  /**
   * The first part of a checkpoint that several processes write: each of them calls `writeShard` then, and the one that has begun calls
   * `commit` with what they answered. One at a time for each generation: what an earlier one has left is removed.
   * @throws TonyError CHECKPOINT_FENCED.
   */
  async beginSave(step: number, origin: Origin): Promise<PendingCheckpoint> {
    const { applicationId, generation } = origin;
    const mine = this.#folderOf(origin);
    if ((await this.#storage.stat(mine))?.type === 'file') {
      throw fenced(generation, step);
    }
    for (const left of await this.#storage.list(mine)) {
      await this.#storage.remove(left.uri);
    }
    // Of its own: a writer of an earlier attempt that comes late spoils nothing.
    return { step, applicationId, generation, uri: joinUri(mine, `step-${step}-${randomUUID()}`) };
  }

  /**
   * Writes one of `count` files; no tensor may be in two of them. The bytes must not change meanwhile.
   * @throws TonyError CHECKPOINT_FENCED.
   */
  async writeShard(
    pending: PendingCheckpoint,
    place: { readonly index: number; readonly count: number },
    tensors: readonly StoredTensor[],
  ): Promise<ShardDescription> {
    return await this.#unlessFenced(pending, async () => await writeShardFile(this.#storage, pending.uri, place, tensors));
  }

  /**
   * Gives what was written its name; the answer is its URI.
   * @throws TonyError CHECKPOINT_FENCED, or CHECKPOINT_FAILED when a file is missing or a tensor is in two of them.
   */
  async commit(pending: PendingCheckpoint, position: TrainingPosition, shards: readonly ShardDescription[]): Promise<string> {
    const { step, generation, applicationId, uri } = pending;
    const inOrder = [...shards].sort((one, other) => (one.name < other.name ? -1 : 1));
    checkShards(inOrder, step, position);
    const name = `step-${step}`;
    return await this.#unlessFenced(pending, async () => {
      const manifest = encodeManifest(position, inOrder, { applicationId, generation, createdAt: new Date().toISOString() });
      await this.#storage.write(joinUri(uri, MANIFEST), manifest);
      const lengths = new Map((await this.#storage.list(uri)).map((entry) => [entry.name, entry.size]));
      for (const shard of inOrder) {
        if (lengths.get(shard.name) !== shard.bytes) {
          throw new TonyError('CHECKPOINT_FAILED', `${uri}/${shard.name} is not there as it was written`);
        }
      }
      const target = joinUri(this.dir, name);
      await this.#moveIntoPlace(uri, target, this.#folderOf(pending));
      return target;
    });
  }

  #folderOf({ applicationId, generation }: Origin): string {
    return joinUri(this.dir, PENDING, folderNameOf(applicationId), `generation-${generation}`);
  }

  async #unlessFenced<T>(pending: PendingCheckpoint, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if ((await this.#storage.stat(this.#folderOf(pending)).catch(() => null))?.type === 'file') {
        throw fenced(pending.generation, pending.step, error);
      }
      throw error;
    }
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

  /**
   * Drops all but the newest `keep` up to `step`, the best one and what is being read. Later ones are left alone: they are of a run before,
   * and this one will replace them.
   */
  async prune(step: number, keep: number): Promise<void> {
    const old = (await this.steps()).filter((each) => each <= step).slice(Math.max(1, keep));
    const kept = old.length === 0 ? new Set<number>() : await this.#protected();
    for (const each of old.filter((candidate) => !kept.has(candidate))) {
      await this.#drop(each);
    }
  }

  /** Out of sight first, so that a mark set at the same moment is either seen here, or its setter sees that it comes too late. */
  async #drop(step: number): Promise<void> {
    const uri = joinUri(this.dir, `step-${step}`);
    const aside = joinUri(this.dir, PENDING, `pruned-${randomUUID()}`, `step-${step}`);
    if (!(await this.#storage.rename(uri, aside))) {
      return;
    }
    if ((await this.#protected()).has(step)) {
      await this.#storage.rename(aside, uri);
    }
    await this.#storage.remove(parentUri(aside));
  }

  async #protected(): Promise<Set<number>> {
    const held = (await this.#storage.list(joinUri(this.dir, HELD))).map(async ({ uri }) => {
      const bytes = await this.#readIfThere(uri);
      return bytes === null ? null : parseHeld(bytes);
    });
    const steps = [(await this.best())?.step, ...(await Promise.all(held))];
    return new Set(steps.filter((step) => step !== undefined && step !== null));
  }

  /**
   * Keeps a checkpoint as the best one, in place of the one that was.
   * @returns false, and nothing is changed, when it is not there any more.
   */
  async markBest(best: BestCheckpoint): Promise<boolean> {
    const uri = joinUri(this.dir, BEST);
    const before = await this.#readIfThere(uri);
    await this.#storage.write(uri, encodeBest(best));
    if (await this.#isThere(best.step)) {
      return true;
    }
    await (before === null ? this.#storage.remove(uri) : this.#storage.write(uri, before));
    return false;
  }

  /** What `markBest` was told last; null when there is none. */
  async best(): Promise<BestCheckpoint | null> {
    const bytes = await this.#readIfThere(joinUri(this.dir, BEST));
    return bytes === null ? null : parseBest(bytes);
  }

  /**
   * Keeps a checkpoint while it is being looked at, until `release` or the holder's next `hold`.
   * @returns false when it is not there any more.
   */
  async hold(holder: string, step: number): Promise<boolean> {
    await this.#storage.write(this.#heldUri(holder), encodeHeld(step));
    if (await this.#isThere(step)) {
      return true;
    }
    await this.release(holder);
    return false;
  }

  async release(holder: string): Promise<void> {
    await this.#storage.remove(this.#heldUri(holder));
  }

  #heldUri(holder: string): string {
    // HDFS takes no colon in a name.
    return joinUri(this.dir, HELD, `${holder.replace(/[^A-Za-z0-9_-]/g, '-')}.json`);
  }

  async #isThere(step: number): Promise<boolean> {
    return (await this.#storage.stat(joinUri(this.dir, `step-${step}`, MANIFEST))) !== null;
  }

  async #readIfThere(uri: string): Promise<Buffer | null> {
    try {
      return await this.#storage.read(uri);
    } catch (error) {
      if (error instanceof TonyError && error.code === 'NOT_FOUND') {
        return null;
      }
      throw error;
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
    const opened = await this.openCheckpoint(step);
    return { ...opened, tensors: await readTensorsOf(this.#storage, opened.uri, opened.manifest, () => true) };
  }

  /** What a checkpoint says of itself; its tensors are not looked at. */
  async openCheckpoint(step: number): Promise<OpenedCheckpoint> {
    const uri = joinUri(this.dir, `step-${step}`);
    const manifest = parseManifest(await this.#storage.read(joinUri(uri, MANIFEST)), uri);
    if (manifest.position.step !== step) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${uri} holds step ${manifest.position.step}`);
    }
    return { uri, manifest, position: manifest.position };
  }

  /** See `openCheckpoint`. */
  async manifest(step: number): Promise<Manifest> {
    return (await this.openCheckpoint(step)).manifest;
  }

  /**
   * The tensors of these names, in the checkpoint's order; nothing else is read.
   * @throws TonyError CHECKPOINT_MISFIT when it does not have one of them, CHECKPOINT_DAMAGED, or NOT_FOUND when a file is not there.
   */
  async readTensors(checkpoint: OpenedCheckpoint, names: Iterable<string>): Promise<StoredTensor[]> {
    const { uri, manifest } = checkpoint;
    const wanted = new Set(names);
    const there = new Set(manifest.tensors.map(({ name }) => name));
    const missing = [...wanted].filter((name) => !there.has(name));
    if (missing.length > 0) {
      throw new TonyError('CHECKPOINT_MISFIT', `${uri} does not have ${missing.slice(0, 5).join(', ')}`);
    }
    return await readTensorsOf(this.#storage, uri, manifest, (name) => wanted.has(name));
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

/** Of a program that runs by itself there is no application. */
function folderNameOf(applicationId: string): string {
  return applicationId === '' ? 'alone' : applicationId;
}

function fenced(generation: number, step: number, cause?: unknown): TonyError {
  return new TonyError('CHECKPOINT_FENCED', `generation ${generation} is over: checkpoint step-${step} was not written`, { cause });
}

function checkShards(shards: readonly ShardDescription[], step: number, position: TrainingPosition): void {
  const fail = (what: string) => new TonyError('CHECKPOINT_FAILED', `checkpoint step-${step} cannot be written: ${what}`);
  if (position.step !== step) {
    throw fail(`it was begun for step ${step}, and is to hold step ${position.step}`);
  }
  shards.forEach(({ name }, index) => {
    if (name !== shardName(index, shards.length)) {
      throw fail(`there is ${name} in place of ${shardName(index, shards.length)}`);
    }
  });
  const broken = notThereOnce(shards.flatMap(({ tensors }) => tensors));
  if (broken !== null) {
    throw fail(`${broken} was not written once as a whole`);
  }
}

/** What a checkpoint itself is to blame for; a NameNode that is away is not. */
export function isDamage(error: unknown): boolean {
  return (
    error instanceof TonyError && (error.code === 'CHECKPOINT_DAMAGED' || error.code === 'NOT_FOUND' || error.code === 'STORAGE_REFUSED')
  );
}
