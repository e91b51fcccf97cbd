import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { createStorage } from '../../storage/create-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { CheckpointPart } from './checkpoint-parts.ts';
import { FileCheckpoints } from './file-checkpoints.ts';

const signal = new AbortController().signal;
let root: string;
let dir: string;

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'checkpoint-parts-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  dir = path.join(root, 'checkpoints');
});

function checkpoints(generation = 1): FileCheckpoints {
  const storage = createStorage({ hadoop: null, user: 'alice' });
  onTestFinished(() => storage.close());
  return new FileCheckpoints(storage, fileUri(dir), { jobId: 'application_1_0001', generation }, 3);
}

/** Writes the files of a rank's local folder, and returns the rank's call. */
async function partOf(rank: number, ranks: number, files: Readonly<Record<string, string>>, more: Partial<CheckpointPart> = {}) {
  const call = { step: 5, save: 0, rank, ranks, path: path.join(root, `local-${rank}`), ...more };
  await mkdir(path.join(call.path, 'optimizer'), { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    await writeFile(path.join(call.path, name), content);
  }
  return call;
}

async function restored(generation: number): Promise<Record<string, string> | null> {
  const found = await checkpoints(generation).restore(path.join(root, 'copy'), signal, (message) => expect.fail(message));
  const names = found === null ? [] : await readdir(found.folder, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  const entries = files.map(async (file) => [path.relative(found?.folder ?? '', file), await readFile(file, 'utf8')] as const);
  return found && Object.fromEntries(await Promise.all(entries));
}

test('a checkpoint is complete when all ranks have stored their parts, in any order, and every rank restores all files', async () => {
  const order = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 0, maxLength: 14 });
  await fc.assert(
    fc.asyncProperty(order, async (early) => {
      await rm(dir, { recursive: true, force: true });
      await mkdir(dir);
      const calls = await Promise.all([
        partOf(0, 3, { '.metadata': 'all', '__0_0.distcp': 'zero' }),
        partOf(1, 3, { '__1_0.distcp': 'one', 'optimizer/state': 'same' }),
        partOf(2, 3, { '__2_0.distcp': 'two', 'optimizer/state': 'same' }),
      ]);
      const done = new Map<number, unknown>();
      for (const rank of [...early, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]) {
        if (done.has(rank)) {
          continue;
        }
        const answer = await checkpoints().savePart(calls[rank] as CheckpointPart, signal);
        const isPublished = (await readdir(dir)).includes('step-5');
        if ('uri' in answer) {
          expect(answer.uri).toBe(fileUri(path.join(dir, 'step-5')));
          expect(isPublished).toBe(true);
          done.set(rank, answer);
        } else {
          expect(answer.missing.length).toBeGreaterThan(0);
        }
      }
      expect(done.size).toBe(3);
      const all = { '.metadata': 'all', '__0_0.distcp': 'zero', '__1_0.distcp': 'one', '__2_0.distcp': 'two', 'optimizer/state': 'same' };
      expect(await restored(2)).toEqual(all);
    }),
    { numRuns: 8 },
  );
});

test('ranks in one task share a folder, whose files are stored after all ranks have arrived', async () => {
  const shared = { path: path.join(root, 'shared') };
  const first = await partOf(0, 2, { zero: '0' }, shared);
  expect(await checkpoints().savePart(first, signal)).toEqual({ missing: [1] });
  const second = await partOf(1, 2, { one: '1' }, shared);
  await Promise.all([first, second].map((call) => checkpoints().savePart(call, signal)));
  expect(await checkpoints().savePart(first, signal)).toMatchObject({ uri: expect.any(String) });
  expect(await restored(2)).toEqual({ zero: '0', one: '1' });
  const index = await readFile(path.join(dir, 'step-5', 'files.json'), 'utf8');
  expect(new Set(index.match(/rank-\d/g))).toHaveLength(1);
});

test('different files with the same name, and different steps, are errors in every rank', async () => {
  const calls = await Promise.all([0, 1].map((rank) => partOf(rank, 2, { 'model.bin': `of ${rank}` })));
  const reasons: unknown[] = [];
  for (const call of [...calls, ...calls, ...calls]) {
    await checkpoints()
      .savePart(call, signal)
      .catch((error: Error) => reasons.push(error.message));
  }
  expect(new Set(reasons)).toEqual(new Set(['rank 0 and rank 1 have different files named model.bin']));
  expect(await readdir(dir)).not.toContain('step-5');
  const [zero, one] = calls.map((call) => ({ ...call, save: 1 })) as [CheckpointPart, CheckpointPart];
  await checkpoints().savePart(zero, signal);
  await expect(checkpoints().savePart({ ...one, step: 6 }, signal)).rejects.toThrow('rank 1 saves step 6, but rank 0 saves step 5');
});

test('parts of an ended generation never become a checkpoint', async () => {
  const save = async (generation: number, step: number, ...ranks: number[]) => {
    for (const rank of ranks) {
      await checkpoints(generation).savePart(await partOf(rank, 2, { [`part-${rank}`]: `${step}` }, { step }), signal);
    }
  };
  await save(1, 5, 0, 1, 0, 1, 0);
  await save(1, 10, 0, 1).catch((error) => expect(error.message).toMatch(/saves step 10, but rank 0 saves step 5/));
  const late = (rank: number) => partOf(rank, 2, { [`part-${rank}`]: '10' }, { step: 10, save: 1 });
  for (const rank of [0, 1, 1]) {
    await checkpoints(1).savePart(await late(rank), signal);
  }
  expect(await restored(2)).toEqual({ 'part-0': '5', 'part-1': '5' });
  await expect(checkpoints(1).savePart(await late(0), signal)).rejects.toMatchObject({ code: 'CHECKPOINT_FENCED' });
  await save(2, 15, 0, 1, 0, 1, 0);
  expect(await restored(3)).toEqual({ 'part-0': '15', 'part-1': '15' });
  expect(await readdir(path.join(dir, '.parts', 'application_1_0001'))).toEqual(['generation-2']);
});
