import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { estimateMemory } from '../../contract/checkpoint/memory-estimate.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { resumeMemoryNotes } from './resume-memory.ts';

const MEBIBYTE = 2 ** 20;

const WEIGHTS = 4 * 2 ** 20;

/** Stores a checkpoint of a model with 4 Mi float32 weights and the given optimizer slots. Returns its folder, and the memory (MiB) needed. */
async function trained(storage: FileStorage, slots: readonly string[]): Promise<{ dir: string; needed: number }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'resume-memory-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const names = ['model:0:dense/kernel', ...slots.map((slot) => `optimizer:${slot}:0:dense/kernel`)];
  const tensors = names.map((name) => ({ name, dtype: 'float32' as const, shape: [WEIGHTS], bytes: new Uint8Array(4 * WEIGHTS) }));
  const position = { step: 70, phase: { name: 'fit-1', start: 0 }, epoch: 0, examples: 0, seed: 1, iterations: 70, final: false };
  await new CheckpointStore(storage, fileUri(folder)).save({ position, tensors }, { jobId: 'application_1_0001', generation: 1 });
  const weights = 4 * WEIGHTS;
  const { total } = estimateMemory({
    ...{ resident: 340 * MEBIBYTE + weights, weights, trainable: weights, slots: slots.length, activations: 0 },
    ...{ worldSize: 2, writesCheckpoints: true },
  });
  return { dir: fileUri(folder), needed: Math.ceil(total / MEBIBYTE) };
}

const job = (memoryMb: number, more = '') =>
  parseJob(`name: a\ncommand: node train.mjs\n${more}\nroles: {worker: {instances: 2, resources: {memory: ${memoryMb}m}}}\n`, {
    file: 'job.yaml',
    folder: '/nowhere',
  });

test.each([
  ['two slots', ['m', 'v']],
  ['one slot', ['momentum']],
  ['no slots', []],
])(
  'a job that resumes training with an optimizer of %s is warned exactly when its containers are smaller than the estimate',
  async (_, slots) => {
    const storage = new FileStorage();
    const { dir, needed } = await trained(storage, slots);
    expect(await resumeMemoryNotes(job(needed), dir, storage)).toEqual([]);
    const [note, ...others] = await resumeMemoryNotes(job(needed - 1), dir, storage);
    expect(others).toEqual([]);
    expect(note).toMatch(
      /^to resume from step 70, a container of role worker may need at least \d+ MiB of memory, but it has \d+ MiB: raise /,
    );
  },
);

test('there is no note without a checkpoint, or if the estimate does not apply', async () => {
  const storage = new FileStorage();
  const { dir } = await trained(storage, ['m', 'v']);
  expect(await resumeMemoryNotes(job(256), null, storage)).toEqual([]);
  expect(await resumeMemoryNotes(job(256), `${dir}/missing`, storage)).toEqual([]);
  expect(await resumeMemoryNotes(job(256, 'framework: pytorch'), dir, storage)).toEqual([]);
  expect(await resumeMemoryNotes(job(256), dir, storage)).toHaveLength(1);
});
