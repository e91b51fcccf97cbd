import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { counted, describeFencing, ORIGIN, onTheWire, saveSharded, snapshot } from '../testing/checkpoint-behaviour.ts';
import { folder as newFolder } from '../testing/folder.ts';
import { followCheckpoints } from './checkpoint-follower.ts';
import type { ShardDescription, StoredTensor } from './checkpoint-format.ts';
import { CheckpointStore } from './checkpoint-store.ts';
import { CheckpointWriter } from './checkpoint-writer.ts';

async function openStore(
  wrap: (storage: Storage) => Storage = (storage) => storage,
): Promise<{ store: CheckpointStore; folder: string; again: CheckpointStore }> {
  const folder = await newFolder();
  const storage = new FileStorage();
  return { store: new CheckpointStore(wrap(storage), fileUri(folder)), again: new CheckpointStore(storage, fileUri(folder)), folder };
}

describe('a store', () => {
  test('a store returns the saved snapshot', async () => {
    const { store } = await openStore();
    expect(await store.newest(() => {})).toBeNull();
    await store.save(snapshot(10), ORIGIN);
    await store.save(snapshot(9), ORIGIN);
    const newest = await store.newest(() => {});
    expect(newest?.position).toEqual(snapshot(10).position);
    expect(newest?.tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, bytes: Buffer.from(bytes) }))).toEqual(
      snapshot(10).tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, bytes: Buffer.from(bytes) })),
    );
    expect(newest?.manifest).toMatchObject(ORIGIN);
  });

  test('a store accepts the first generation of another application after any generation of the previous one', async () => {
    const { store } = await openStore();
    await store.retireOlderThan({ ...ORIGIN, generation: 3 });
    const next = { jobId: 'application_1_0002', generation: 1 };
    await store.retireOlderThan(next);
    await store.save(snapshot(1), next);
    await expect(store.save(snapshot(2), ORIGIN)).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
    expect(await store.steps()).toEqual([1]);
  });

  test('a store skips a checkpoint with a flipped bit or a truncated file, and names it', async () => {
    const { store, folder } = await openStore();
    await store.save(snapshot(1), ORIGIN);
    await store.save(snapshot(2), ORIGIN);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('manifest.json', 'tensors-00000-of-00001.bin'),
        fc.double({ min: 0, max: 0.9999, noNaN: true }),
        fc.integer({ min: 0, max: 8 }),
        async (name, place, kind) => {
          const file = join(folder, 'step-2', name);
          const good = await readFile(file);
          const at = Math.floor(place * good.length);
          if (kind === 8) {
            await truncate(file, at);
          } else {
            const bad = Buffer.from(good);
            bad[at] = (bad[at] as number) ^ (1 << kind);
            await writeFile(file, bad);
          }
          const skipped: string[] = [];
          const newest = await store.newest((message) => skipped.push(message));
          await writeFile(file, good);
          // A flipped bit is harmless if it turns white space between JSON values into other white space.
          if (newest?.position.step === 2) {
            expect(name).toBe('manifest.json');
            expect(newest.tensors.map(({ bytes }) => Buffer.from(bytes))).toEqual(
              snapshot(2).tensors.map(({ bytes }) => Buffer.from(bytes)),
            );
          } else {
            expect(newest?.position.step).toBe(1);
            expect(skipped).toHaveLength(1);
            expect(skipped[0]).toMatch(/^checkpoint step-2 is skipped: .*step-2/);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  test('a store falls back to the previous checkpoint when a file is missing', async () => {
    const { store, folder } = await openStore();
    await store.save(snapshot(1), ORIGIN);
    await store.save(snapshot(2), ORIGIN);
    await rm(join(folder, 'step-2', 'tensors-00000-of-00001.bin'));
    const skipped: string[] = [];
    expect((await store.newest((message) => skipped.push(message)))?.position.step).toBe(1);
    expect(skipped).toHaveLength(1);
  });

  test('a store replaces a damaged checkpoint of the same step', async () => {
    const { store, folder } = await openStore();
    await store.save(snapshot(2), ORIGIN);
    await truncate(join(folder, 'step-2', 'tensors-00000-of-00001.bin'), 3);
    await store.save(snapshot(2, true), ORIGIN);
    expect((await store.newest(() => {}))?.position).toMatchObject({ step: 2, final: true });
  });

  test('a store prunes all but the newest checkpoints up to a step, and keeps every later one', async () => {
    const { store } = await openStore();
    for (const step of [1, 2, 3, 4, 9]) {
      await store.save(snapshot(step), ORIGIN);
    }
    await store.prune(4, 2);
    expect(await store.steps()).toEqual([9, 4, 3]);
  });
});

describe('several processes', () => {
  test('several processes write one checkpoint together, and each process reads only the parts that it needs', async () => {
    const reads: string[] = [];
    const { store, folder, again } = await openStore(
      (storage) =>
        new Proxy(storage, {
          get: (target, name) => {
            const value = Reflect.get(target, name) as unknown;
            return name !== 'open'
              ? typeof value === 'function'
                ? value.bind(target)
                : value
              : (uri: string, range: { offset: number; length: number }) => {
                  reads.push(`${uri.slice(uri.lastIndexOf('/') + 1)} ${range.offset}+${range.length}`);
                  return target.open(uri, range);
                };
          },
        }),
    );
    const uri = await saveSharded(again, 4, ORIGIN);
    expect(uri).toMatch(/\/step-4$/);
    expect((await readdir(join(folder, 'step-4'))).sort()).toEqual([
      'manifest.json',
      'tensors-00000-of-00003.bin',
      'tensors-00001-of-00003.bin',
      'tensors-00002-of-00003.bin',
    ]);
    const opened = onTheWire(await store.openCheckpoint(4));
    const some = await store.readTensors(opened, ['model/b']);
    expect(some).toEqual([{ ...snapshot(4).tensors[1], bytes: Uint8Array.from(snapshot(4).tensors[1]?.bytes ?? []) }]);
    expect(reads).toEqual(['tensors-00001-of-00003.bin 0+4']);
    const whole = await store.read(4);
    expect(whole.position).toEqual(snapshot(4).position);
    expect(whole.tensors).toEqual(snapshot(4).tensors);
    await expect(store.readTensors(opened, ['model/a', 'model/z'])).rejects.toMatchObject({ code: 'CHECKPOINT_MISMATCH' });
  });

  test('several processes read single tensors of a file, even when its other tensors are damaged', async () => {
    const { store, folder } = await openStore();
    await store.save(snapshot(3), ORIGIN);
    const file = join(folder, 'step-3', 'tensors-00000-of-00001.bin');
    const bytes = await readFile(file);
    bytes.writeUInt8(bytes.readUInt8(7) ^ 1, 7);
    await writeFile(file, bytes);
    const opened = await store.openCheckpoint(3);
    expect(await store.readTensors(opened, ['model/b'])).toHaveLength(1);
    await expect(store.readTensors(opened, ['model/a'])).rejects.toThrow(/the checksum of model\/a in .* is wrong/);
  });

  test('several processes cannot commit a checkpoint with a missing shard, a duplicate shard, a duplicate tensor or an overwritten shard', async () => {
    const { store, folder } = await openStore();
    const { position, tensors } = snapshot(1);
    const pending = await store.beginSave(1, ORIGIN);
    const one = await store.writeShard(pending, { index: 0, count: 2 }, tensors);
    const empty = await store.writeShard(pending, { index: 1, count: 2 }, []);
    const same = await store.writeShard(pending, { index: 1, count: 2 }, tensors.slice(0, 1));
    for (const shards of [[one], [one, one], [one, same], [one, empty]]) {
      await expect(store.commit(pending, position, shards)).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
    }
    await expect(store.commit(pending, { ...position, step: 2 }, [one, empty])).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
    await store.writeShard(pending, { index: 1, count: 2 }, []);
    await store.commit(pending, position, [one, empty]);
    expect((await store.read(1)).tensors).toEqual(tensors);
    expect(await readdir(join(folder, '.pending', ORIGIN.jobId, 'generation-1'))).toEqual([]);
  });

  test('several processes reassemble a tensor from its parts only when the parts cover each number exactly once', async () => {
    const { store } = await openStore();
    const { position, tensors } = snapshot(1);
    const [{ bytes, ...a }, b] = tensors as [StoredTensor, StoredTensor];
    const part = (from: number, to: number): StoredTensor => ({ ...a, from, bytes: bytes.subarray(from * 4, to * 4) });
    const write = async (parts: readonly StoredTensor[][]) => {
      const pending = await store.beginSave(1, ORIGIN);
      const shards: ShardDescription[] = [];
      for (const [index, each] of parts.entries()) {
        shards.push(await store.writeShard(pending, { index, count: parts.length }, each));
      }
      await store.commit(pending, position, shards);
    };
    for (const wrong of [[part(0, 20)], [part(0, 20), part(19, 50)], [part(0, 20), part(21, 50)], [part(0, 50), part(0, 50)]]) {
      await expect(write(wrong.map((each) => [each]))).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
    }
    await write([[part(30, 50), b], [part(0, 13)], [part(13, 30)]]);
    expect(await store.readTensors(await store.openCheckpoint(1), ['model/a'])).toEqual([{ ...a, bytes: Buffer.from(bytes) }]);
    expect((await store.read(1)).tensors.map(({ name }) => name).sort()).toEqual(['model/a', 'model/b']);
  });

  test('several processes commit a checkpoint that late writes of an abandoned attempt do not change', async () => {
    const { store } = await openStore();
    const { position, tensors } = snapshot(1);
    const given = await store.beginSave(1, ORIGIN);
    const taken = await store.beginSave(1, ORIGIN);
    const shard = await store.writeShard(taken, { index: 0, count: 1 }, tensors);
    await store.writeShard(given, { index: 0, count: 1 }, snapshot(9).tensors);
    await store.commit(taken, position, [shard]);
    expect((await store.read(1)).tensors).toEqual(tensors);
  });

  test('several processes write and read large tensors in pieces', async () => {
    const { store } = await openStore();
    const tensors = [3_000_001, 1, 5_000_000].map((size, index) => ({
      name: `model:${index}:w`,
      dtype: 'float32' as const,
      shape: [size],
      bytes: new Uint8Array(Float32Array.from({ length: size }, (_, at) => at * (index + 1)).buffer),
    }));
    await store.save({ position: snapshot(1).position, tensors }, ORIGIN);
    const { tensors: found } = await store.read(1);
    found.forEach(({ bytes }, index) => {
      expect(Buffer.compare(bytes, tensors[index]?.bytes as Uint8Array)).toBe(0);
    });
  });
});

describe('a protected checkpoint', () => {
  const best = (step: number) => ({ step, metric: 'loss', value: 0.25, mode: 'min' as const });

  test('a protected checkpoint survives pruning as the best one, until another one is better', async () => {
    const { store } = await openStore();
    expect(await store.marks.best()).toBeNull();
    for (const step of [1, 2, 3, 4]) {
      await store.save(snapshot(step), ORIGIN);
    }
    expect(await store.marks.setBest(best(1))).toBe(true);
    await store.prune(4, 2);
    expect(await store.steps()).toEqual([4, 3, 1]);
    expect(await store.marks.best()).toEqual(best(1));
    expect(await store.marks.setBest(best(2))).toBe(false);
    expect(await store.marks.best()).toEqual(best(1));
    await store.marks.setBest(best(3));
    await store.prune(4, 1);
    expect(await store.steps()).toEqual([4, 3]);
    await store.retireOlderThan({ ...ORIGIN, generation: 2 });
    expect((await store.newest(() => {}))?.position.step).toBe(4);
  });

  test('a protected checkpoint survives pruning while a reader holds it', async () => {
    const { store } = await openStore();
    for (const step of [1, 2, 3, 4]) {
      await store.save(snapshot(step), ORIGIN);
    }
    expect(await store.marks.hold('evaluator:0', 1)).toBe(true);
    expect(await store.marks.hold('evaluator-1', 2)).toBe(true);
    await store.prune(4, 1);
    expect(await store.steps()).toEqual([4, 2, 1]);
    await store.marks.hold('evaluator-0', 4);
    await store.marks.release('evaluator-1');
    await store.prune(4, 1);
    expect(await store.steps()).toEqual([4]);
    expect(await store.marks.hold('evaluator-0', 2)).toBe(false);
  });

  // The test writes hundreds of files and syncs each one to disk.
  test('a protected checkpoint still exists if setBest or hold succeeds at any point of a concurrent prune', async () => {
    for (const keepBy of ['best', 'hold'] as const) {
      for (let moment = 0; moment < 20; moment++) {
        let kept: boolean | undefined;
        let isMarking = false;
        const world = await openStore((storage) =>
          counted(storage, async (operation) => {
            if (operation === moment && !isMarking) {
              isMarking = true;
              kept = keepBy === 'best' ? await world.again.marks.setBest(best(1)) : await world.again.marks.hold('evaluator-0', 1);
            }
          }),
        );
        const { store, again } = world;
        for (const step of [1, 2, 3]) {
          await again.save(snapshot(step), ORIGIN);
        }
        await store.prune(3, 1);
        kept ??= keepBy === 'best' ? await again.marks.setBest(best(1)) : await again.marks.hold('evaluator-0', 1);
        expect((await again.steps()).includes(1)).toBe(kept);
        expect((await again.marks.best())?.step).toBe(keepBy === 'best' && kept ? 1 : undefined);
      }
    }
  });

  test('a damaged best.json protects no checkpoint', async () => {
    const { store, folder } = await openStore();
    await writeFile(join(folder, 'best.json'), '{"step": -1');
    expect(await store.marks.best()).toBeNull();
  });
});

describeFencing('file', async () => {
  return { storage: new FileStorage(), dir: fileUri(await newFolder()) };
});

describe('a writer', () => {
  const options = (saved: number[], troubles: string[]) => ({
    ...ORIGIN,
    keep: 2,
    onSaved: (step: number) => saved.push(step),
    onTrouble: (message: string) => troubles.push(message),
    retry: { firstMs: 1, mostMs: 4 },
  });

  test('a writer retries while storage is unreachable', async () => {
    const { store } = await openStore((storage) =>
      counted(storage, async (operation) => {
        if (operation < 9) {
          throw new TonyError('HDFS_UNREACHABLE', 'the NameNode is away');
        }
      }),
    );
    const [saved, troubles]: [number[], string[]] = [[], []];
    const writer = new CheckpointWriter(store, options(saved, troubles));
    writer.offer(snapshot(5));
    await writer.finish();
    expect(saved).toEqual([5]);
    expect(troubles).toEqual([
      'checkpoint step-5 could not be written: the NameNode is away; training continues, and checkpoints are retried until one succeeds',
      expect.stringMatching(/^checkpoints succeed again, starting with step-5, after \d+ s of failures$/),
    ]);
  });

  test('a writer replaces a waiting checkpoint with a newer one, and keeps the configured number of checkpoints', async () => {
    const { store } = await openStore();
    const [saved, troubles]: [number[], string[]] = [[], []];
    const writer = new CheckpointWriter(store, options(saved, troubles));
    for (const step of [1, 2, 3, 4]) {
      writer.offer(snapshot(step));
    }
    await writer.finish();
    expect(saved).toEqual([1, 4]);
    writer.offer(snapshot(5));
    await writer.finish();
    expect(await store.steps()).toEqual([5, 4]);
  });

  test('a writer drops the waiting snapshot before it takes a new one, so at most two snapshots are in memory', async () => {
    const { store } = await openStore();
    const [saved, troubles]: [number[], string[]] = [[], []];
    const writer = new CheckpointWriter(store, options(saved, troubles));
    writer.offer(snapshot(1));
    writer.offer(snapshot(2));
    await writer.record(async () => {
      await expect.poll(() => saved).toEqual([1]);
      await new Promise((resolve) => setTimeout(resolve, 20));
      return snapshot(3);
    });
    await writer.finish();
    expect(saved).toEqual([1, 3]);
  });

  test('a writer retries a checkpoint of several processes until it succeeds', async () => {
    const { store } = await openStore();
    const [saved, troubles]: [number[], string[]] = [[], []];
    const writer = new CheckpointWriter(store, options(saved, troubles));
    let tries = 0;
    writer.offerSave({
      step: 6,
      write: async () => {
        tries += 1;
        if (tries < 3) {
          throw new TonyError('HDFS_UNREACHABLE', 'a server is away');
        }
        await saveSharded(store, 6, ORIGIN);
      },
    });
    await writer.finish();
    expect([saved, troubles.length, await store.steps()]).toEqual([[6], 2, [6]]);
  });

  test('a writer stops permanently once a newer generation has taken over', async () => {
    const { store, again } = await openStore();
    const writer = new CheckpointWriter(store, options([], []));
    await again.retireOlderThan({ ...ORIGIN, generation: 2 });
    writer.offer(snapshot(1));
    await expect(writer.finish()).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
    expect(() => writer.offer(snapshot(2))).toThrow(/generation 1 has ended/);
  });

  test('a writer fails at the end if storage stays unreachable', async () => {
    const { store } = await openStore((storage) =>
      counted(storage, () => Promise.reject(new TonyError('HDFS_UNREACHABLE', 'the NameNode is away'))),
    );
    const writer = new CheckpointWriter(store, { ...options([], []), finishMs: 30 });
    writer.offer(snapshot(1));
    await expect(writer.finish()).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
  });

  test('a writer stops retrying after giveUp()', async () => {
    const { store } = await openStore((storage) =>
      counted(storage, () => Promise.reject(new TonyError('HDFS_UNREACHABLE', 'the NameNode is away'))),
    );
    const troubles: string[] = [];
    const writer = new CheckpointWriter(store, { ...options([], troubles), retry: { firstMs: 3_600_000, mostMs: 3_600_000 } });
    writer.offer(snapshot(1));
    await expect.poll(() => troubles).toHaveLength(1);
    writer.giveUp();
    await expect(writer.finish()).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
  });
});

test('a follower yields the newest checkpoints, including one written just before the end, and ends with its application', async () => {
  const { store, folder } = await openStore();
  await store.marks.setEnd('application_0_0001');
  await store.save(snapshot(1, true), { ...ORIGIN, jobId: 'application_0_0001' });
  const [steps, troubles]: [number[], string[]] = [[], []];
  const options = { everyMs: 1, jobId: ORIGIN.jobId, onTrouble: (message: string) => troubles.push(message) };
  for await (const checkpoint of followCheckpoints(store, options)) {
    const { step } = checkpoint.position;
    steps.push(step);
    if (step === 1) {
      await store.save(snapshot(2), ORIGIN);
      await store.save(snapshot(3), ORIGIN);
      await truncate(join(folder, 'step-3', 'manifest.json'), 10);
    } else if (!checkpoint.position.final) {
      await store.save(snapshot(2, true), ORIGIN);
    } else {
      await store.marks.setEnd(ORIGIN.jobId);
    }
  }
  expect(steps).toEqual([1, 2, 2]);
  expect(troubles).toHaveLength(1);
});

test('a follower waits for a checkpoint that is being replaced, without a report and without yielding an older checkpoint', async () => {
  const { folder, again } = await openStore();
  let looks = 0;
  /** Simulates the moment between the two renames that replace step-2: from the middle of the second poll to the end of the third. */
  class Replacing extends FileStorage {
    override async list(uri: string) {
      looks++;
      if (looks === 4) {
        await again.save(snapshot(2, true), ORIGIN);
      }
      return (await super.list(uri)).filter(({ name }) => looks !== 3 || name !== 'step-2');
    }
    override async read(uri: string) {
      if (looks === 2) {
        throw new TonyError('NOT_FOUND', `${uri} does not exist`);
      }
      return await super.read(uri);
    }
  }
  await again.save(snapshot(1), ORIGIN);
  await again.save(snapshot(2), ORIGIN);
  const [seen, troubles]: [[number, boolean][], string[]] = [[], []];
  const options = { everyMs: 1, jobId: ORIGIN.jobId, onTrouble: (message: string) => troubles.push(message) };
  for await (const { position } of followCheckpoints(new CheckpointStore(new Replacing(), fileUri(folder)), options)) {
    seen.push([position.step, position.final]);
    if (position.final) {
      await again.marks.setEnd(ORIGIN.jobId);
    }
  }
  expect(seen).toEqual([
    [2, false],
    [2, true],
  ]);
  expect(troubles).toEqual([]);
});
