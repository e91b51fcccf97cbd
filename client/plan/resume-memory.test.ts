import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { expect, onTestFinished, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { CheckpointStore } from '../../training/checkpoint/checkpoint-store.ts';
import { estimateMemory, sizesOf, slotsOf } from '../../training/fit/memory-estimate.ts';
import { inspectModel } from '../../training/model/compiled-model.ts';
import { captureState } from '../../training/model/training-state.ts';
import { resumeMemoryNotes } from './resume-memory.ts';

const MEBIBYTE = 2 ** 20;

/** Stores a checkpoint of a model that `optimizer` has trained for a step. Returns the folder, and the estimate that rank 0 would make. */
async function trained(storage: FileStorage, optimizer: tf.Optimizer): Promise<{ dir: string; needed: number }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'resume-memory-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const layers = [tf.layers.dense({ inputShape: [784], units: 1024 }), tf.layers.batchNormalization(), tf.layers.dense({ units: 10 })];
  const model = tf.sequential({ layers });
  model.compile({ optimizer, loss: 'meanSquaredError' });
  await model.fit(tf.zeros([2, 784]), tf.zeros([2, 10]), { verbose: 0 });
  const inspected = inspectModel(tf, model);
  const tensors = await captureState(tf, inspected);
  const position = { step: 70, phase: { name: 'fit-1', start: 0 }, epoch: 0, examples: 0, seed: 1, iterations: 70, final: false };
  await new CheckpointStore(storage, fileUri(folder)).save({ position, tensors }, { applicationId: 'application_1_0001', generation: 1 });
  const sizes = sizesOf(inspected, 0);
  const { total } = estimateMemory({
    ...{ ...sizes, resident: 340 * MEBIBYTE + sizes.weights, slots: slotsOf(optimizer), worldSize: 2, writesCheckpoints: true },
  });
  return { dir: fileUri(folder), needed: Math.ceil(total / MEBIBYTE) };
}

const job = (memoryMb: number, more = '') =>
  parseJob(`name: a\ncommand: node train.mjs\n${more}\nroles: {worker: {instances: 2, resources: {memory: ${memoryMb}m}}}\n`, {
    file: 'job.yaml',
    folder: '/nowhere',
  });

test.each([
  ['adam', () => tf.train.adam()],
  ['momentum', () => tf.train.momentum(0.1, 0.9)],
  ['sgd', () => tf.train.sgd(0.1)],
] as const)(
  'a job that resumes training with %s is warned exactly when its containers are smaller than the estimate',
  async (_, create) => {
    const storage = new FileStorage();
    const { dir, needed } = await trained(storage, create());
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
  const { dir } = await trained(storage, tf.train.adam());
  expect(await resumeMemoryNotes(job(256), null, storage)).toEqual([]);
  expect(await resumeMemoryNotes(job(256), `${dir}/missing`, storage)).toEqual([]);
  expect(await resumeMemoryNotes(job(256, 'framework: pytorch'), dir, storage)).toEqual([]);
  expect(await resumeMemoryNotes(job(256), dir, storage)).toHaveLength(1);
});
