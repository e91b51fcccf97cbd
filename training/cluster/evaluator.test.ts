import { readFile } from 'node:fs/promises';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { ValidationData } from '../data/fit-data.ts';
import { fromArray } from '../data/sources/sources.ts';
import type { BatchLogs } from '../fit/callbacks.ts';
import { classifier, examples, fitTogether, weightsOf } from '../testing/fit-world.ts';
import { type EvaluateCheckpointsOptions, type Evaluation, Evaluator } from './evaluator.ts';

const APPLICATION = 'application_1_0001';

interface Watched {
  readonly notices: string[];
  readonly values: [step: number, values: object, best: object][];
  readonly evaluator: Evaluator;
}

function evaluatorOf(dir: string, model: tf.LayersModel, data: ValidationData, options: EvaluateCheckpointsOptions = {}): Watched {
  const storage = new FileStorage();
  const store = new CheckpointStore(storage, fileUri(dir));
  const notices: string[] = [];
  const values: Watched['values'] = [];
  const world = {
    ...{ tf, storage, store },
    jobId: APPLICATION,
    holder: 'evaluator-0',
    onValues: (step: number, own: object, best: object) => void values.push([step, own, best]),
    onNotice: (message: string) => void notices.push(message),
  };
  return { notices, values, evaluator: new Evaluator(world, model, data, { everyMs: 20, ...options }) };
}

/** Trains slowly enough for an evaluator to keep up. `afterStep` runs on each rank. */
async function train(dir: string, epochs: number, afterStep: (step: number) => Promise<void> = async () => {}) {
  const onBatchEnd = async (_: number, { step }: BatchLogs) => {
    await new Promise<void>((resolve) => setTimeout(resolve, 10));
    await afterStep(step);
  };
  const models = [classifier(tf.train.adam(0.05)), classifier(tf.train.adam(0.05))];
  const options = { epochs, batchSize: 10, callbacks: { onBatchEnd } };
  const histories = await fitTogether(models, examples(40), options, { folder: dir, everySteps: 5, jobId: APPLICATION });
  await new CheckpointStore(new FileStorage(), fileUri(dir)).marks.setEnd(APPLICATION);
  return histories;
}

/** Examples with wrong labels: the better the model is trained, the worse its evaluation. */
function misleading() {
  const { x, y } = examples(40);
  return { x, y: tf.reverse2d(y, 1) as tf.Tensor2D };
}

test('an evaluator follows a training run to its final checkpoint and reports the best checkpoint', async () => {
  const dir = await folder();
  const held = examples(40, 500);
  const model = classifier(tf.train.sgd(0.1), { seed: 100 });
  const seen: Evaluation[] = [];
  const onEvaluation = (evaluation: Evaluation) => void seen.push(evaluation);
  const watched = evaluatorOf(dir, model, held, { metric: 'acc', onEvaluation, restoreBest: true });
  const waitForIt = async (step: number) => {
    // The checkpoint of a step is written after the step's callbacks.
    if ([6, 11, 16].includes(step)) {
      await expect.poll(() => seen.map((evaluation) => evaluation.step)).toContain(step - 1);
    }
  };
  const [report, [history]] = await Promise.all([watched.evaluator.run(), train(dir, 40, waitForIt)]);
  expect(history?.endedEarly).toBeNull();
  expect(report.stopped).toBeNull();
  expect(report.evaluations).toEqual(seen);
  expect(seen.slice(0, 3).map(({ step }) => step)).toEqual([5, 10, 15]);
  expect(seen.at(-1)).toMatchObject({ step: 80, epoch: 40, final: true });
  const most = Math.max(...seen.map(({ values }) => values.acc as number));
  const best = seen.find(({ values }) => values.acc === most) as Evaluation;
  expect(report.best).toEqual({ step: best.step, uri: `${fileUri(dir)}/step-${best.step}`, metric: 'acc', value: most, mode: 'max' });
  expect(JSON.parse(await readFile(path.join(dir, 'best.json'), 'utf8'))).toMatchObject({ step: best.step, metric: 'acc' });
  expect(watched.notices.at(-1)).toBe(`the best checkpoint is ${best.uri}, with acc ${most}`);
  expect(watched.values.at(-1)).toEqual([80, seen.at(-1)?.values, { best_acc: most, best_step: best.step }]);
  // With `restoreBest`, the model now has the best weights, so evaluating it must give the reported values.
  const [loss, accuracy] = model.evaluate(held.x, held.y) as [tf.Scalar, tf.Scalar];
  expect(loss.dataSync()[0]).toBeCloseTo(best.values.loss as number, 5);
  expect(accuracy.dataSync()[0]).toBeCloseTo(most, 5);
});

test('an evaluator ends a training run that no longer improves, and reports the reason', async () => {
  const dir = await folder();
  const { evaluator, notices } = evaluatorOf(dir, classifier(tf.train.sgd(0.1)), misleading(), { patience: 3 });
  const [report, histories] = await Promise.all([evaluator.run(), train(dir, 100_000)]);
  expect(report.stopped).toMatch(/^loss on held-out data did not improve for 3 evaluations; best [\d.]+ at step \d+$/);
  expect(report.best?.step).toBe(report.evaluations[0]?.step);
  expect(histories.map(({ endedEarly }) => endedEarly)).toEqual([report.stopped, report.stopped]);
  expect(histories[0]?.steps).toBe(histories[1]?.steps);
  expect(report.evaluations.at(-1)).toMatchObject({ final: true, step: histories[0]?.steps });
  expect(notices).toEqual([expect.stringMatching(/^the best checkpoint is .*step-\d+, with loss /)]);
});

test('a restarted evaluator keeps the best checkpoint on record; a dataset gives the same values as arrays', async () => {
  const dir = await folder();
  await train(dir, 4);
  const { x, y } = misleading();
  const [xs, ys] = [x.arraySync() as number[][], y.arraySync() as number[][]];
  const rows = xs.map((row, index) => ({ xs: Float32Array.from(row), ys: Float32Array.from(ys[index] as number[]) }));
  const first = await evaluatorOf(dir, classifier(tf.train.sgd(0.1)), fromArray(rows)).evaluator.run();
  const store = new CheckpointStore(new FileStorage(), fileUri(dir));
  await store.marks.setBest({ step: 5, metric: 'loss', value: 0.001, mode: 'min' });
  const model = classifier(tf.train.sgd(0.1));
  const again = await evaluatorOf(dir, model, [x, y], { restoreBest: true }).evaluator.run();
  expect(again.evaluations).toMatchObject([{ step: 8, isBest: false, final: true }]);
  expect(again.evaluations[0]?.values.loss).toBeCloseTo(first.evaluations[0]?.values.loss as number, 4);
  expect(again.best?.step).toBe(5);
  const stored = (await store.read(5)).tensors.filter(({ name }) => name.startsWith('model:'));
  expect(weightsOf(model)).toEqual(stored.flatMap(({ bytes }) => [...new Float32Array(Uint8Array.from(bytes).buffer)]));
});

test('an evaluator rejects invalid options', async () => {
  const dir = await folder();
  const attempt = (options: EvaluateCheckpointsOptions) => evaluatorOf(dir, classifier(tf.train.sgd(0.1)), examples(4), options);
  expect(() => attempt({ metric: 'accuracy' })).toThrow('the model has no metric accuracy');
  expect(() => attempt({ patience: 0 })).toThrow('patience of evaluateCheckpoints is 0, but must be a whole number of at least 1');
  const bare = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [4] })] });
  expect(() => evaluatorOf(dir, bare, examples(4))).toThrow('the model is not compiled');
});
