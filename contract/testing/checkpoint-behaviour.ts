import { describe, expect, test } from 'vitest';
import type { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Origin, ShardDescription, TrainingSnapshot } from '../checkpoint/checkpoint-format.ts';
import { CheckpointStore } from '../checkpoint/checkpoint-store.ts';

export function snapshot(step: number, final = false): TrainingSnapshot {
  const numbers = Float32Array.from({ length: 50 }, (_, index) => step + index / 7);
  return {
    position: { step, phase: { name: 'fit-1', start: 0 }, epoch: 1, examples: step * 10, seed: 42, iterations: step, final },
    tensors: [
      { name: 'model/a', dtype: 'float32', shape: [5, 10], bytes: new Uint8Array(numbers.buffer) },
      { name: 'model/b', dtype: 'int32', shape: [], bytes: new Uint8Array(Int32Array.of(step).buffer) },
      { name: 'model/empty', dtype: 'float32', shape: [0, 3], bytes: new Uint8Array(0) },
    ],
  };
}

export const ORIGIN = { jobId: 'application_1_0001', generation: 1 };

/** Wraps a `Storage` so that each operation first calls `before` with the number of earlier operations. */
export function counted(storage: Storage, before: (operation: number) => Promise<void>): Storage {
  let operations = 0;
  return new Proxy(storage, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== 'function' || name === 'close') {
        return value;
      }
      return async (...input: unknown[]) => {
        await before(operations++);
        return await Reflect.apply(value as (...input: unknown[]) => unknown, target, input);
      };
    },
  });
}

/** Saves a checkpoint as three processes would, with one tensor each. */
export async function saveSharded(store: CheckpointStore, step: number, origin: Origin): Promise<string> {
  const { position, tensors } = snapshot(step);
  const pending = onTheWire(await store.beginSave(step, origin));
  const shards: ShardDescription[] = [];
  for (const [index, tensor] of tensors.entries()) {
    shards.push(onTheWire(await store.writeShard(pending, { index, count: tensors.length }, [tensor])));
  }
  return await store.commit(pending, position, shards.reverse());
}

/** Returns the value as another process would receive it, after encoding and decoding it as JSON. */
export function onTheWire<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/**
 * Defines the fencing tests for one kind of storage.
 * @param open returns a new empty folder on each call.
 * @param moments for each takeover, how many operations the old writer completes before the takeover.
 */
export function describeFencing(
  kind: string,
  open: () => Promise<{ storage: Storage; dir: string }>,
  moments: readonly number[] = Array.from({ length: 16 }, (_, moment) => moment),
): void {
  // Each test writes hundreds of files and syncs each one to disk, so the timeout is long.
  describe.each([
    { by: 'one process', save: (store: CheckpointStore, step: number, origin: Origin) => store.save(snapshot(step), origin) },
    { by: 'several processes', save: saveSharded },
  ])(`fencing on ${kind}, written by $by`, { timeout: 180_000 }, ({ save }) => {
    test('an old writer publishes no checkpoint after a takeover at any moment, and the newest checkpoint stays intact', async () => {
      // Each round starts the new generation one operation later than the previous round. The rounds run at the same time, because each one
      // mostly waits for the storage.
      const round = async (moment: number) => {
        let chosen: number | undefined;
        let tookOver = false;
        const { storage, dir } = await open();
        const again = new CheckpointStore(storage, dir);
        const store = new CheckpointStore(
          counted(storage, async (operation) => {
            if (operation === moment) {
              tookOver = true;
              await again.retireOlderThan({ ...ORIGIN, generation: 2 });
              chosen = (await again.newest(() => {}))?.position.step;
            }
          }),
          dir,
        );
        await again.save(snapshot(1), ORIGIN);
        const error = await save(store, 2, ORIGIN).then(
          () => null,
          (thrown: TonyError) => thrown,
        );
        const after = await again.newest((message) => {
          throw new Error(message);
        });
        expect(after?.position.step).toBe(chosen ?? 2);
        if (chosen === 1) {
          expect(error?.code).toBe('CHECKPOINT_FENCED');
        }
        // The old writer tries again before the new writer writes.
        if (tookOver) {
          await expect(save(store, 7, ORIGIN)).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
        }
        await save(again, 3, { ...ORIGIN, generation: 2 });
        expect((await again.newest(() => {}))?.position.step).toBe(3);
      };
      await Promise.all(moments.map(round));
    });

    test('a generation can be retired repeatedly, even if it never wrote a checkpoint', async () => {
      const { storage, dir } = await open();
      const store = new CheckpointStore(storage, dir);
      await store.retireOlderThan({ ...ORIGIN, generation: 1 });
      await store.retireOlderThan({ ...ORIGIN, generation: 4 });
      await store.retireOlderThan({ ...ORIGIN, generation: 4 });
      await expect(save(store, 1, { ...ORIGIN, generation: 3 })).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
      await save(store, 1, { ...ORIGIN, generation: 4 });
    });
  });
}
