import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { ORIGIN, snapshot } from '../testing/checkpoint-behaviour.ts';
import type { TrainingSnapshot } from './checkpoint-format.ts';
import { CheckpointStore } from './checkpoint-store.ts';
import { CheckpointThread } from './checkpoint-thread.ts';
import { CheckpointWriter } from './checkpoint-writer.ts';

let programs: string;
let folder: string;
let thread: CheckpointThread;

beforeAll(async () => {
  programs = await mkdtemp(join(tmpdir(), 'checkpoint-thread-'));
  await build({
    entryPoints: [join(import.meta.dirname, 'checkpoint-thread-main.ts')],
    outfile: join(programs, 'checkpoint-thread.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
  });
});
afterAll(() => rm(programs, { recursive: true, force: true }));
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'checkpoints-'));
  const opened = CheckpointThread.open(pathToFileURL(join(programs, 'checkpoint-thread.mjs')));
  thread = opened as CheckpointThread;
});
afterEach(async () => {
  await thread.close();
  await rm(folder, { recursive: true, force: true });
});

/** Returns a snapshot whose tensors each have their own memory, as `captureState` does. */
function owned(step: number): TrainingSnapshot {
  const { position, tensors } = snapshot(step);
  return { position, tensors: tensors.map((tensor) => ({ ...tensor, bytes: Uint8Array.from(tensor.bytes) })) };
}

function openStore(): CheckpointStore {
  return new CheckpointStore(new FileStorage(), fileUri(folder), () => thread);
}

test("the checkpoint thread writes the same bytes as the main thread, and returns the tensors' memory", async () => {
  const store = openStore();
  const given = owned(3);
  const saving = store.save(given, ORIGIN);
  await expect.poll(() => given.tensors[0]?.bytes.length).toBe(0);
  await saving;
  expect(given.tensors).toEqual(snapshot(3).tensors);
  expect((await store.read(3)).tensors).toEqual(snapshot(3).tensors);
});

test('a writer retries a failed write of the checkpoint thread with the same bytes', async () => {
  const store = openStore();
  await writeFile(join(folder, '.pending'), 'in the way of every write');
  const [saved, troubles]: [number[], string[]] = [[], []];
  const writer = new CheckpointWriter(store, {
    ...ORIGIN,
    keep: 2,
    onSaved: (step) => saved.push(step),
    onTrouble: (message) => troubles.push(message),
    retry: { firstMs: 5, mostMs: 20 },
  });
  await writer.record(async () => owned(4));
  await expect.poll(() => troubles.length).toBe(1);
  await rm(join(folder, '.pending'));
  await writer.finish();
  expect(saved).toEqual([4]);
  expect(troubles).toHaveLength(2);
  expect((await store.read(4)).tensors).toEqual(snapshot(4).tensors);
});

test('the checkpoint thread reports a newer generation with the same error as the main thread', async () => {
  const store = openStore();
  await store.retireOlderThan({ ...ORIGIN, generation: 2 });
  await expect(store.save(owned(1), ORIGIN)).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
});

test('the main thread writes tensors that share memory', async () => {
  const store = openStore();
  const { position, tensors } = owned(5);
  const both = new Uint8Array(new ArrayBuffer(400));
  const shared = [
    { ...tensors[0], name: 'a', shape: [50], bytes: both.subarray(0, 200) },
    { ...tensors[0], name: 'b', shape: [50], bytes: both.subarray(200) },
  ] as TrainingSnapshot['tensors'];
  expect([CheckpointThread.canTake(tensors), CheckpointThread.canTake(shared)]).toEqual([true, false]);
  await store.save({ position, tensors: shared }, ORIGIN);
  expect((await store.read(5)).tensors.map(({ name }) => name)).toEqual(['a', 'b']);
  expect(both).toHaveLength(400);
});

test('a writer fails when the checkpoint thread has ended', async () => {
  const store = openStore();
  const writer = new CheckpointWriter(store, { ...ORIGIN, keep: 2, onSaved: () => {}, onTrouble: () => {} });
  await thread.close();
  writer.offer(owned(6));
  await expect(writer.finish()).rejects.toThrow(/the checkpoint thread failed: it has ended/);
});
