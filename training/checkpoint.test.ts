import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { TonyError } from '../conf/errors.ts';
import { FileStorage } from '../storage/file-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { fileUri } from '../storage/uri.ts';
import { followCheckpoints } from './checkpoint-follower.ts';
import { CheckpointStore } from './checkpoint-store.ts';
import { CheckpointWriter } from './checkpoint-writer.ts';
import { counted, describeFencing, ORIGIN, snapshot } from './testing/checkpoint-behaviour.ts';

const folders: string[] = [];
afterEach(async () => {
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true, force: true })));
});

async function openStore(
  wrap: (storage: Storage) => Storage = (storage) => storage,
): Promise<{ store: CheckpointStore; folder: string; again: CheckpointStore }> {
  const folder = await mkdtemp(join(tmpdir(), 'checkpoints-'));
  folders.push(folder);
  const storage = new FileStorage();
  return { store: new CheckpointStore(wrap(storage), fileUri(folder)), again: new CheckpointStore(storage, fileUri(folder)), folder };
}

describe('a store', () => {
  test('gives back what it was given', async () => {
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

  test('never takes a checkpoint of which a bit has flipped or an end is missing, and says which it skipped', async () => {
    const { store, folder } = await openStore();
    await store.save(snapshot(1), ORIGIN);
    await store.save(snapshot(2), ORIGIN);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('manifest.json', 'tensors.bin'),
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
          // Between the values of a JSON text white space may change into white space.
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

  test('takes the one before when a file is missing', async () => {
    const { store, folder } = await openStore();
    await store.save(snapshot(1), ORIGIN);
    await store.save(snapshot(2), ORIGIN);
    await rm(join(folder, 'step-2', 'tensors.bin'));
    const skipped: string[] = [];
    expect((await store.newest((message) => skipped.push(message)))?.position.step).toBe(1);
    expect(skipped).toHaveLength(1);
  });

  test('replaces a damaged one of the same step', async () => {
    const { store, folder } = await openStore();
    await store.save(snapshot(2), ORIGIN);
    await truncate(join(folder, 'step-2', 'tensors.bin'), 3);
    await store.save(snapshot(2, true), ORIGIN);
    expect((await store.newest(() => {}))?.position).toMatchObject({ step: 2, final: true });
  });

  test('keeps the newest, and leaves alone what is later', async () => {
    const { store } = await openStore();
    for (const step of [1, 2, 3, 4, 9]) {
      await store.save(snapshot(step), ORIGIN);
    }
    await store.prune(4, 2);
    expect(await store.steps()).toEqual([9, 4, 3]);
  });
});

describeFencing('file', async () => {
  const path = await mkdtemp(join(tmpdir(), 'checkpoints-'));
  folders.push(path);
  return { storage: new FileStorage(), dir: fileUri(path) };
});

describe('a writer', () => {
  const options = (saved: number[], troubles: string[]) => ({
    ...ORIGIN,
    keep: 2,
    onSaved: (step: number) => saved.push(step),
    onTrouble: (message: string) => troubles.push(message),
    retry: { firstMs: 1, mostMs: 4 },
  });

  test('tries again while storage is away', async () => {
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
    expect(troubles.length).toBeGreaterThan(0);
    expect(troubles[0]).toBe('checkpoint step-5 could not be written: the NameNode is away; it is tried again');
  });

  test('lets the newest waiting one take the place of older ones, and keeps as many as it should', async () => {
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

  test('stops for good when a newer generation has taken over', async () => {
    const { store, again } = await openStore();
    const writer = new CheckpointWriter(store, options([], []));
    await again.retireOlderThan(2);
    writer.offer(snapshot(1));
    await expect(writer.finish()).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
    expect(() => writer.offer(snapshot(2))).toThrow(/generation 1 is over/);
  });

  test('gives up at the end when storage does not come back', async () => {
    const { store } = await openStore((storage) =>
      counted(storage, () => Promise.reject(new TonyError('HDFS_UNREACHABLE', 'the NameNode is away'))),
    );
    const writer = new CheckpointWriter(store, { ...options([], []), finishMs: 30 });
    writer.offer(snapshot(1));
    await expect(writer.finish()).rejects.toMatchObject({ code: 'CHECKPOINT_FAILED' });
  });
});

test('a follower sees the newest ones and ends after the final one of its application', async () => {
  const { store, folder } = await openStore();
  await store.save(snapshot(1, true), { ...ORIGIN, applicationId: 'application_0_0001' });
  const [steps, troubles]: [number[], string[]] = [[], []];
  const options = { everyMs: 1, applicationId: ORIGIN.applicationId, onTrouble: (message: string) => troubles.push(message) };
  for await (const checkpoint of followCheckpoints(store, options)) {
    const { step } = checkpoint.position;
    steps.push(step);
    if (step === 1) {
      await store.save(snapshot(2), ORIGIN);
      await store.save(snapshot(3), ORIGIN);
      await truncate(join(folder, 'step-3', 'manifest.json'), 10);
    } else if (!checkpoint.position.final) {
      await store.save(snapshot(2, true), ORIGIN);
    }
  }
  expect(steps).toEqual([1, 2, 2]);
  expect(troubles).toHaveLength(1);
});
