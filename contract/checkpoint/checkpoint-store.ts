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
  type StoredTensor,
  shardName,
  type TrainingPosition,
  type TrainingSnapshot,
} from './checkpoint-format.ts';
import { CheckpointMarks } from './checkpoint-marks.ts';
import { readTensorsOf, writeShardFile } from './checkpoint-shard.ts';
import { CheckpointThread } from './checkpoint-thread.ts';
import { openCheckpointFolders } from './open-checkpoint-folders.ts';

/** A checkpoint whose manifest has been read but whose tensors have not. Contains only JSON values. */
export interface OpenedCheckpoint {
  readonly uri: string;
  readonly manifest: Manifest;
  readonly position: TrainingPosition;
}

export interface StoredCheckpoint extends OpenedCheckpoint {
  readonly tensors: readonly StoredTensor[];
}

/** A checkpoint as programs see it. */
export interface LoadedCheckpoint {
  readonly uri: string;
  readonly step: number;
  readonly epoch: number;
  /** Name of the phase that wrote the checkpoint: the `name` passed to `fit` or `loop`, or a default such as `fit-1` or `loop-1`. */
  readonly phase: string;
  /** True for the last checkpoint of its phase. */
  readonly final: boolean;
}

export function loadedCheckpoint({ uri, position: { step, epoch, phase, final } }: OpenedCheckpoint): LoadedCheckpoint {
  return { uri, step, epoch, phase: phase.name, final };
}

/**
 * Reads and writes a job's checkpoints, which share one folder:
 *
 *   step-100/ step-200/ ...         complete checkpoints
 *   best.json                       names the best checkpoint according to an evaluator; pruning keeps that checkpoint
 *   end.json                        exists when the application's program has ended and writes no more checkpoints
 *   .held/evaluator-0.json          names the checkpoint that a task is reading; pruning keeps that checkpoint
 *   .pending/ or .log/              unfinished checkpoints and tombstones (see RenamingPublication and LoggingPublication)
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

  /**
   * Prevents all older generations of the application from writing. A generation must call this before it chooses the checkpoint to resume
   * from.
   */
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
   * @throws TonyError CHECKPOINT_FENCED if the generation has been retired.
   */
  async save(snapshot: TrainingSnapshot, origin: Origin): Promise<string> {
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
   * Begins a checkpoint that several processes write. Each process calls `writeShard`. The process that called `beginSave` then calls
   * `commit` with all processes' results.
   * @throws TonyError CHECKPOINT_FENCED if the generation has been retired.
   */
  async beginSave(step: number, origin: Origin): Promise<PendingCheckpoint> {
    return await this.#folders.begin(step, origin);
  }

  /**
   * Writes one of the checkpoint's `count` files. Each tensor, or part of a tensor, must be in exactly one file. The caller must not change
   * the tensors' bytes until the promise settles.
   * @param pending the result of `beginSave`, which may come from the network.
   * @throws TonyError CHECKPOINT_FENCED, or CHECKPOINT_FAILED if `pending` names a folder that `beginSave` cannot have returned.
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
   * Checks a checkpoint's files and publishes them with the manifest.
   * @returns the checkpoint's URI.
   * @throws TonyError CHECKPOINT_FENCED, or CHECKPOINT_FAILED if a file is missing or two files contain the same tensor.
   */
  async commit(pending: PendingCheckpoint, position: TrainingPosition, shards: readonly ShardDescription[]): Promise<string> {
    const { step, generation, jobId, uri } = pending;
    const inOrder = [...shards].sort((one, other) => (one.name < other.name ? -1 : 1));
    checkShards(inOrder, step, position);
    return await this.#folders.unlessFenced(pending, async () => {
      const lengths = new Map((await this.#storage.list(uri)).map((entry) => [entry.name, entry.size]));
      for (const shard of inOrder) {
        if (lengths.get(shard.name) !== shard.bytes) {
          throw new TonyError('CHECKPOINT_FAILED', `${uri}/${shard.name} is missing or differs from the written file`);
        }
      }
      const origin = { jobId, generation, createdAt: new Date().toISOString() };
      const manifest = encodeManifest(position, inOrder, { ...origin, folder: this.#folders.subFolder(pending) });
      return await this.#folders.publish(pending, manifest);
    });
  }

  /**
   * Removes old checkpoints up to `step`. Keeps the newest `keep` of them, the steps in `others`, the best checkpoint, and the checkpoints
   * that tasks are reading. Also keeps checkpoints with later steps: they are from an earlier run, and this run will replace them.
   */
  async prune(step: number, keep: number, others: ReadonlySet<number> = new Set()): Promise<void> {
    const old = (await this.steps()).filter((each) => each <= step && !others.has(each)).slice(Math.max(1, keep));
    const kept = old.length === 0 ? new Set<number>() : await this.marks.protected();
    for (const each of old.filter((candidate) => !kept.has(candidate))) {
      await this.#folders.drop(each, async () => (await this.marks.protected()).has(each));
    }
  }

  /**
   * Reads a checkpoint with its tensors.
   * @throws TonyError CHECKPOINT_INVALID, or NOT_FOUND if a file is missing.
   */
  async read(step: number): Promise<StoredCheckpoint> {
    const opened = await this.openCheckpoint(step);
    return { ...opened, tensors: await this.readTensors(opened) };
  }

  /**
   * Reads a checkpoint's manifest.
   * @throws TonyError CHECKPOINT_INVALID, or NOT_FOUND if the checkpoint does not exist.
   */
  async openCheckpoint(step: number): Promise<OpenedCheckpoint> {
    const uri = joinUri(this.dir, `step-${step}`);
    const manifest = parseManifest(await this.#storage.read(joinUri(uri, MANIFEST)), uri);
    if (manifest.position.step !== step) {
      throw new TonyError('CHECKPOINT_INVALID', `${uri} contains step ${manifest.position.step}`);
    }
    return { uri, manifest, position: manifest.position };
  }

  /**
   * Reads the tensors with these names, in the checkpoint's order. By default, reads all tensors.
   * @throws TonyError CHECKPOINT_MISMATCH if the checkpoint lacks one of the tensors, CHECKPOINT_INVALID, or NOT_FOUND if a file is missing.
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
      throw new TonyError('CHECKPOINT_MISMATCH', `${uri} does not contain ${missing.slice(0, 5).join(', ')}`);
    }
    return await readTensorsOf(this.#storage, uri, manifest, (name) => wanted.has(name));
  }

  /**
   * Resolves with the newest usable checkpoint, or null if there is none. Reports each newer checkpoint that is damaged or diverged to
   * `onSkipped`.
   */
  async newest(onSkipped: (message: string) => void): Promise<StoredCheckpoint | null> {
    return await this.newestThat(async (opened) => {
      if (opened.position.diverged === true) {
        onSkipped(`${opened.uri} is skipped, because training had diverged: the loss or a weight is NaN or infinite`);
        return null;
      }
      return { ...opened, tensors: await this.readTensors(opened) };
    }, onSkipped);
  }

  /**
   * Calls `use` with one checkpoint after another, newest first, until `use` resolves with a value other than null. Resolves with that
   * value, or with null if there is none. A damaged checkpoint is reported to `onSkipped` and skipped.
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

/**
 * Returns true if the error means that the checkpoint is unusable. Returns false for temporary errors, for example while storage is
 * unreachable.
 */
export function isDamage(error: unknown): boolean {
  return (
    error instanceof TonyError && (error.code === 'CHECKPOINT_INVALID' || error.code === 'NOT_FOUND' || error.code === 'STORAGE_DENIED')
  );
}
