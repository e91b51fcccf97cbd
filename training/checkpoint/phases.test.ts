import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../contract/process/task-context.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { FitHistory } from '../fit/fit-history.ts';
import type { FitOptions } from '../fit/fit-options.ts';
import { classifier, examples, fitTogether, weightsOf } from '../testing/fit-world.ts';
import { Phases } from './phases.ts';

class Killed extends Error {}

interface Life {
  readonly dir: string;
  readonly generation: number;
  readonly workers: number;
  /** The program dies after the checkpoint of this step in this phase (counted from 0). */
  readonly diesAt?: readonly [phase: number, step: number];
  readonly jobId?: string;
  readonly keep?: number;
}

/** The result of a program that trains a model, trains it again with a frozen first layer, and then trains another model. */
interface Outcome {
  readonly histories: readonly FitHistory[];
  readonly weights: readonly number[][];
}

const data = examples(40);

async function live({ dir, generation, workers, diesAt, jobId = 'application_1_0001' }: Life): Promise<Outcome> {
  const ranks = Array.from({ length: workers }, (_, rank) => rank);
  const phases = ranks.map(() => new Phases(jobId));
  // The initial weights differ between generations and ranks. Rank 0's initial weights may affect training only until there is a
  // checkpoint. Those of other ranks must never affect it.
  const seedOf = (rank: number, begunIn: number) => (generation <= begunIn && rank === 0 ? 7 : 100 * generation + rank);
  const models = ranks.map((rank) => classifier(tf.train.adam(0.02), { seed: seedOf(rank, 1), dropout: 0.2 }));
  const others = ranks.map((rank) => classifier(tf.train.momentum(0.05, 0.9), { seed: seedOf(rank, 5) + 50 }));
  const histories: FitHistory[] = [];
  const weights: number[][] = [];
  const reports: Report[][] = ranks.map(() => []);
  const trainPhase = async (trained: tf.Sequential[], options: FitOptions) => {
    const phase = histories.length;
    let last = 0;
    const onBatchEnd = (_: number, { step }: { readonly step: number }) => {
      last = step;
    };
    // The checkpoint of a step is written after the step's callbacks.
    const onBatchBegin = async () => {
      if (diesAt?.[0] === phase && diesAt[1] === last) {
        const start = histories.reduce((sum, { steps }) => sum + steps, 0);
        await expect.poll(() => reports[0]).toContainEqual({ type: 'checkpoint', step: start + last });
        throw new Killed();
      }
    };
    const world = { folder: dir, everySteps: 2, generation, jobId, phases, reports };
    const own = { batchSize: 8 / workers, seed: 3, ...options, callbacks: { onBatchBegin, onBatchEnd } };
    histories.push((await fitTogether(trained, data, own, world))[0] as FitHistory);
    weights.push(weightsOf(trained[0] as tf.Sequential));
  };
  await trainPhase(models, { epochs: 2 });
  for (const model of models) {
    (model.layers[0] as tf.layers.Layer).trainable = false;
    model.compile({ optimizer: tf.train.sgd(0.1), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  }
  await trainPhase(models, { epochs: 3 });
  await trainPhase(others, { epochs: 2 });
  return { histories, weights };
}

describe.each([1, 2])('a program with three phases and two models, on %i ranks', (workers) => {
  test('resumes in the phase in which it was killed, and ends like an undisturbed run', async () => {
    const undisturbed = await live({ dir: await folder(), generation: 1, workers });
    const dir = await folder();
    const deaths = [
      [0, 4],
      [0, 8],
      [1, 2],
      [1, 10],
      [2, 6],
    ] as const;
    for (const [index, diesAt] of deaths.entries()) {
      await expect(live({ dir, generation: index + 1, workers, diesAt })).rejects.toThrow(Killed);
    }
    const last = await live({ dir, generation: deaths.length + 1, workers });
    expect(last).toEqual(undisturbed);
    const steps = undisturbed.histories.map((history) => history.steps);
    expect(steps).toEqual([10, 15, 10]);
    const store = new CheckpointStore(new FileStorage(), fileUri(dir));
    const kept = await store.steps();
    expect(kept[0]).toBe(35);
    expect(kept).toEqual(expect.arrayContaining([35, 25, 10]));
    const positions = await Promise.all([10, 25, 35].map(async (step) => (await store.openCheckpoint(step)).position));
    expect(positions.map(({ phase, final }) => [phase, final])).toEqual([
      [{ name: 'fit-1', start: 0 }, true],
      [{ name: 'fit-2', start: 10 }, true],
      [{ name: 'fit-3', start: 25 }, true],
    ]);
    expect(await live({ dir, generation: deaths.length + 2, workers })).toEqual(undisturbed);
  });
});

test('a phase rejects the checkpoint of another model with an error that names the phase', async () => {
  const dir = await folder();
  await fitTogether([classifier(tf.train.sgd(0.1))], data, {}, { folder: dir });
  const other = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4] })] });
  other.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  await expect(fitTogether([other], data, {}, { folder: dir, generation: 2 })).rejects.toThrow(
    /^phase fit-1: .*step-2 does not fit this model: it has 4 weights instead of 2$/,
  );
});

test('a phase ignores and reports checkpoints that record a different start', async () => {
  const dir = await folder();
  const run = async (epochs: number, generation: number, reports: Report[][]) => {
    const phases = [new Phases('application_1_0001')];
    const world = { folder: dir, generation, phases, reports };
    await fitTogether([classifier(tf.train.sgd(0.1))], data, { epochs }, world);
    return (await fitTogether([classifier(tf.train.sgd(0.1))], data, { epochs: 1 }, world))[0]?.steps;
  };
  await run(1, 1, [[]]);
  const reports: Report[] = [];
  expect(await run(3, 2, [reports])).toBe(2);
  expect(reports).toContainEqual({
    type: 'notice',
    message: expect.stringMatching(/step-4 is not used: its phase fit-2 began at step 2, but now begins at step 6$/),
  });
  expect((await new CheckpointStore(new FileStorage(), fileUri(dir)).steps())[0]).toBe(8);
});

test('a phase without steps keeps the final checkpoint of the previous phase', async () => {
  const dir = await folder();
  const phases = [new Phases('application_1_0001')];
  await fitTogether([classifier(tf.train.sgd(0.1))], data, {}, { folder: dir, phases });
  await fitTogether([classifier(tf.train.sgd(0.1))], data, { epochs: 1, initialEpoch: 1 }, { folder: dir, phases });
  const store = new CheckpointStore(new FileStorage(), fileUri(dir));
  expect(await store.steps()).toEqual([2]);
  expect((await store.openCheckpoint(2)).position.phase.name).toBe('fit-1');
});

test('phase names are numbered per kind, unique, and valid file names', () => {
  const phases = new Phases('');
  const names = [phases.begin('fit'), phases.begin('loop'), phases.begin('fit', 'fine-tuning'), phases.begin('fit')].map(
    ({ name }) => name,
  );
  expect(names).toEqual(['fit-1', 'loop-1', 'fine-tuning', 'fit-3']);
  expect(() => phases.begin('fit', 'loop-1')).toThrow('this program already has a training phase named loop-1');
  expect(() => phases.begin('fit', 'a b')).toThrow('"a b" is not a valid name for a training phase');
});
