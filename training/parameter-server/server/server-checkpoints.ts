import type { ShardDescription, StoredTensor } from '../../../contract/checkpoint/checkpoint-format.ts';
import { CheckpointStore } from '../../../contract/checkpoint/checkpoint-store.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Storage } from '../../../storage/storage.ts';
import type { ServerAskOf } from '../protocol/messages.ts';
import type { ServedShard } from './served-shard.ts';

/** Reads and writes this server's part of checkpoints. Keeps copies of the server's state in memory until they are written. */
export class ServerCheckpoints {
  readonly #storage: Storage;
  readonly #dir: string | null;
  /** At most two copies of the state, by step: the copy being written, and the next copy. */
  readonly #copies = new Map<number, Promise<StoredTensor[]>>();

  /** @param dir the URI of the job's checkpoint folder, or null if the job has none. */
  constructor(storage: Storage, dir: string | null) {
    this.#storage = storage;
    this.#dir = dir;
  }

  /** Loads the weights and optimizer 0's state into the shard. */
  async restore(shard: ServedShard, { dir, step, iterations }: NonNullable<ServerAskOf<'prepare'>['restore']>): Promise<void> {
    const store = this.#storeIn(dir);
    const checkpoint = await store.openCheckpoint(step);
    const names = shard.namesIn(checkpoint.manifest.tensors.map(({ name }) => name));
    shard.restore(await store.readTensors(checkpoint, names), iterations, checkpoint.uri);
  }

  /** Copies the shard's current state. @param withScalars see `ServedShard.capture`. */
  async capture(shard: ServedShard, { step, writing }: ServerAskOf<'capture'>, withScalars: boolean): Promise<void> {
    for (const older of this.#copies.keys()) {
      if (older === step || older !== writing) {
        this.#copies.delete(older);
      }
    }
    const copy = shard.capture(withScalars);
    this.#copies.set(step, copy);
    await copy;
  }

  async write({ step, dir, pending, index, count }: ServerAskOf<'write'>): Promise<ShardDescription> {
    const tensors = await this.#copies.get(step);
    if (tensors === undefined) {
      throw new TonyError('CHECKPOINT_FAILED', `a newer copy has replaced the copy of step ${step}`);
    }
    return await this.#storeIn(dir).writeShard(pending, { index, count }, tensors);
  }

  clear(): void {
    this.#copies.clear();
  }

  /** Opens the job's checkpoint folder. Rejects any other folder, because the name comes from a worker. */
  #storeIn(dir: string): CheckpointStore {
    if (dir !== this.#dir) {
      throw new TonyError('CHECKPOINT_FAILED', `${dir} is not the checkpoint folder of this job (${this.#dir ?? 'the job has none'})`);
    }
    return new CheckpointStore(this.#storage, dir);
  }
}
