import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { CheckpointFolders, PendingCheckpoint } from './checkpoint-folders.ts';
import {
  encodeManifest,
  MANIFEST,
  type Manifest,
  missingOrRepeated,
  type Origin,
  parseManifest,
  type ShardDescription,
  type Snapshot,
  type StoredTensor,
  shardName,
  type TrainingPosition,
} from './checkpoint-format.ts';
import { CheckpointMarks } from './checkpoint-marks.ts';
import { readTensorsOf, writeShardFile } from './checkpoint-shard.ts';
import { CheckpointThread } from './checkpoint-thread.ts';
import { openCheckpointFolders } from './open-checkpoint-folders.ts';

/** A checkpoint whose manifest has been read. Can be sent as JSON. */
export interface OpenedCheckpoint {
  readonly uri: string;
  readonly manifest: Manifest;
  readonly position: TrainingPosition;
}

export interface StoredCheckpoint extends OpenedCheckpoint {
  readonly tensors: readonly StoredTensor[];
}

/** Describes a checkpoint to programs. */
export interface LoadedCheckpoint {
  readonly uri: string;
  readonly step: number;
  readonly epoch: number;
  /** The phase that wrote the checkpoint: `fit-1` or `loop-1`, for example, or the `name` passed to `fit` or `loop`. */
  readonly phase: string;
  /** True for the last checkpoint of its phase. */
  readonly final: boolean;
}

export function loadedCheckpoint({ uri, position: { step, epoch, phase, final } }: OpenedCheckpoint): LoadedCheckpoint {
  return { uri, step, epoch, phase: phase.name, final };
}

/**
 * A job's checkpoints, which share one folder:
 *
 *   step-100/ step-200/ ...                          complete checkpoints
 *   best.json                                        the best checkpoint according to an evaluator; protected from pruning
 *   end.json                                         this application's program has ended and writes no further checkpoints
 *   .held/evaluator-0.json                           the checkpoint that a task is reading; protected from pruning
 *   .pending/ or .log/                               unfinished checkpoints and tombstones (see LoggingPublication and RenamingPublication)
 */
export class CheckpointStore {
  readonly #folders: CheckpointFolders;
  readonly dir: string;
  readonly marks: CheckpointMarks;
  readonly #storage: Storage;
  readonly #openThread: () => CheckpointThread | null;

  /** @param openThread returns the thread in which `save` writes, or null to write in the calling thread. */
  constructor(storage: Storage, dir: string, openThread: () => CheckpointThread | null = () => null) {
    this.dir = dir;
    this.marks = new CheckpointMarks(storage, dir, openThread);
    this.#storage = storage;
    this.#folders = openCheckpointFolders(storage, dir, MANIFEST);
    this.#openThread = openThread;
  }

  /** Prevents all older generations of the application from writing. Call it before choosing the checkpoint to resume from. */
  async retireOlderThan(origin: Origin): Promise<void> {
    await this.#folders.retireOlderThan(origin);
  }

  /** Resolves with the steps of all complete checkpoints, highest first. */
  async steps(): Promise<number[]> {
    return await this.#folders.steps();
  }

  /**
   * Writes a checkpoint atomically. The caller must not read or change the snapshot's bytes until the promise settles.
   * @returns the checkpoint's URI.
   * @throws TonyError CHECKPOINT_FENCED if a newer generation has taken over.
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
   * Begins a checkpoint that several processes write. Each process calls `writeShard`; the process that called `beginSave` then calls
   * `commit` with all results.
   * @throws TonyError CHECKPOINT_FENCED.
   */
  async beginSave(step: number, origin: Origin): Promise<PendingCheckpoint> {
    return await this.#folders.begin(step, origin);
  }

  /**
   * Writes one of `count` files. Each tensor, or part of a tensor, belongs to exactly one file. The bytes must not change until the promise
   * settles.
   * @param pending the result of `beginSave`. It may come from the network, so `writeShard` rejects any other folder.
   * @throws TonyError CHECKPOINT_FENCED, CHECKPOINT_FAILED.
   */
  async writeShard(
    pending: PendingCheckpoint,
    place: { readonly index: number; readonly count: number },
    tensors: readonly StoredTensor[],
  ): Promise<ShardDescription> {
    if (!this.#folders.isPendingHere(pending)) {
      throw new TonyError('CHECKPOINT_FAILED', `${pending.uri} is not an unfinished checkpoint in ${this.dir}`);
    }
    return await this.#folders.unlessFenced(pending, async () => await writeShardFile(this.#storage, pending.uri, place, tensors));
  }

  /**
   * Completes a checkpoint: checks its files and publishes them with the manifest.
   * @returns the checkpoint's URI.
   * @throws TonyError CHECKPOINT_FENCED, or CHECKPOINT_FAILED if a file is missing or two files contain the same tensor.
   */
  async commit(pending: PendingCheckpoint, position: TrainingPosition, shards: readonly ShardDescription[]): Promise<string> {
    const { step, generation, applicationId, uri } = pending;
    const inOrder = [...shards].sort((one, other) => (one.name < other.name ? -1 : 1));
    checkShards(inOrder, step, position);
    return await this.#folders.unlessFenced(pending, async () => {
      const lengths = new Map((await this.#storage.list(uri)).map((entry) => [entry.name, entry.size]));
      for (const shard of inOrder) {
        if (lengths.get(shard.name) !== shard.bytes) {
          throw new TonyError('CHECKPOINT_FAILED', `${uri}/${shard.name} is missing or differs from the written file`);
        }
      }
      const origin = { applicationId, generation, createdAt: new Date().toISOString() };
      const manifest = encodeManifest(position, inOrder, { ...origin, folder: this.#folders.subFolder(pending) });
      return await this.#folders.publish(pending, manifest);
    });
  }

  /**
   * Removes old checkpoints up to `step`. Keeps the newest `keep`, the steps in `others`, the best checkpoint, and the checkpoints that
   * tasks are reading. Also keeps later steps: they come from an earlier run, and this run will replace them.
   */
  async prune(step: number, keep: number, others: ReadonlySet<number> = new Set()): Promise<void> {
    const old = (await this.steps()).filter((each) => each <= step && !others.has(each)).slice(Math.max(1, keep));
    const kept = old.length === 0 ? new Set<number>() : await this.marks.protected();
    for (const each of old.filter((candidate) => !kept.has(candidate))) {
      await this.#folders.drop(each, async () => (await this.marks.protected()).has(each));
    }
  }

  /** @throws TonyError CHECKPOINT_DAMAGED, or NOT_FOUND if the checkpoint or one of its files is missing. */
  async read(step: number): Promise<StoredCheckpoint> {
    const opened = await this.openCheckpoint(step);
    return { ...opened, tensors: await this.readTensors(opened) };
  }

  /** Reads a checkpoint's manifest without the tensors. @throws TonyError CHECKPOINT_DAMAGED, NOT_FOUND. */
  async openCheckpoint(step: number): Promise<OpenedCheckpoint> {
    const uri = joinUri(this.dir, `step-${step}`);
    const manifest = parseManifest(await this.#storage.read(joinUri(uri, MANIFEST)), uri);
    if (manifest.position.step !== step) {
      throw new TonyError('CHECKPOINT_DAMAGED', `${uri} contains step ${manifest.position.step}`);
    }
    return { uri, manifest, position: manifest.position };
  }

  /**
   * Reads the named tensors in the checkpoint's order. Default: all tensors.
   * @throws TonyError CHECKPOINT_MISFIT if a named tensor is missing, CHECKPOINT_DAMAGED, or NOT_FOUND if a file is missing.
   */
  async readTensors(checkpoint: OpenedCheckpoint, names?: Iterable<string>): Promise<StoredTensor[]> {
    const { uri, manifest } = checkpoint;
    if (names === undefined) {
      return await readTensorsOf(this.#storage, uri, manifest, () => true);
    }
    const wanted = new Set(names);
    const there = new Set(manifest.tensors.map(({ name }) => name));
    const missing = [...wanted].filter((name) => !there.has(name));
    if (missing.length > 0) {
      throw new TonyError('CHECKPOINT_MISFIT', `${uri} does not contain ${missing.slice(0, 5).join(', ')}`);
    }
    return await readTensorsOf(this.#storage, uri, manifest, (name) => wanted.has(name));
  }

  /**
   * Resolves with the newest intact checkpoint; null if there is none. Calls `onSkipped` for each newer checkpoint that is damaged or has
   * diverged.
   */
  async newest(onSkipped: (message: string) => void): Promise<StoredCheckpoint | null> {
    return await this.newestThat(async (opened) => {
      if (opened.position.diverged === true) {
        onSkipped(`${opened.uri} is skipped: training had diverged, so its loss or a weight is NaN or infinite`);
        return null;
      }
      return { ...opened, tensors: await this.readTensors(opened) };
    }, onSkipped);
  }

  /**
   * Calls `use` with each checkpoint, newest first, until `use` returns a result. Resolves with that result, or with null.
   * @param use returns null to reject a checkpoint. If `use` throws because the checkpoint is damaged, `onSkipped` receives the message and
   *   the search continues with the next older checkpoint.
   */
  async newestThat<T>(use: (opened: OpenedCheckpoint) => Promise<T | null>, onSkipped: (message: string) => void): Promise<T | null> {
    for (const step of await this.steps()) {
      try {
        const used = await use(await this.openCheckpoint(step));
        if (used !== null) {
          return used;
        }
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

function checkShards(shards: readonly ShardDescription[], step: number, position: TrainingPosition): void {
  const fail = (what: string) => new TonyError('CHECKPOINT_FAILED', `checkpoint step-${step} cannot be written: ${what}`);
  if (position.step !== step) {
    throw fail(`it was started for step ${step}, but its training position is at step ${position.step}`);
  }
  shards.forEach(({ name }, index) => {
    if (name !== shardName(index, shards.length)) {
      throw fail(`file ${index} is named ${name} instead of ${shardName(index, shards.length)}`);
    }
  });
  const broken = missingOrRepeated(shards.flatMap(({ tensors }) => tensors));
  if (broken !== null) {
    throw fail(`${broken} was not written completely and exactly once`);
  }
}

/** Returns true if the error means that the checkpoint is unusable. Temporary errors, such as unreachable storage, return false. */
export function isDamage(error: unknown): boolean {
  return (
    error instanceof TonyError && (error.code === 'CHECKPOINT_DAMAGED' || error.code === 'NOT_FOUND' || error.code === 'STORAGE_REFUSED')
  );
}
