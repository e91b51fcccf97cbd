import { readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../contract/process/task-context.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { TrainingData } from '../data/data.ts';
import { classifier, examples, fitTogether, weightsOf } from '../testing/fit-world.ts';
import type { BatchLogs } from './callbacks.ts';
import type { FitHistory } from './fit-history.ts';
import type { FitOptions } from './fit-options.ts';

interface World {
  readonly folder?: string;
  readonly everySteps?: number;
  readonly generation?: number;
  readonly reports?: Report[];
}

/** Creates a model whose initial weights depend only on the seed. */
function makeModel(optimizer: tf.Optimizer, dropout = 0, seed = 7): tf.LayersModel {
  const initializer = (add: number) => tf.initializers.glorotUniform({ seed: seed + add });
  const model = tf.sequential();
  model.add(
    tf.layers.dense({
      units: 8,
      activation: 'tanh',
      inputShape: [4],
      kernelInitializer: initializer(0),
      kernelRegularizer: tf.regularizers.l2({ l2: 0.01 }),
    }),
  );
  if (dropout > 0) {
    model.add(tf.layers.dropout({ rate: dropout }));
  }
  model.add(tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: initializer(1) }));
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

function makeData(count: number): TrainingData {
  const values = Float32Array.from({ length: count * 4 }, (_, index) => Math.sin(index * 1.7) * 2);
  const labels = Uint8Array.from({ length: count }, (_, example) => {
    const at = example * 4;
    return (values[at] as number) > 0.3 ? 0 : (values[at + 1] as number) > 0 ? 1 : 2;
  });
  return {
    x: { values, shape: [count, 4] },
    y: { values: labels, shape: [count] },
    prepare: ({ x, y }) => ({ x, y: tf.oneHot((y[0] as tf.Tensor).toInt(), 3).toFloat() }),
  };
}

async function trainAll({ reports, ...world }: World, models: tf.LayersModel[], data: TrainingData, options: FitOptions) {
  return await fitTogether(models, data, options, { ...world, ...(reports === undefined ? {} : { reports: models.map(() => reports) }) });
}

describe('one rank', () => {
  test('one rank has the same losses, metrics and weights as model.fit', async () => {
    const data = makeData(50);
    const [ours, theirs] = [makeModel(tf.train.adam(0.01)), makeModel(tf.train.adam(0.01))];
    const [history] = await trainAll({}, [ours], data, { epochs: 3, batchSize: 16, shuffle: false });
    const x = tf.tensor2d((data.x as { values: Float32Array }).values, [50, 4]);
    const y = tf.oneHot(tf.tensor1d(Array.from((data.y as { values: Uint8Array }).values), 'int32'), 3).toFloat();
    const expected = await theirs.fit(x, y, { epochs: 3, batchSize: 16, shuffle: false, verbose: 0 });
    weightsOf(ours).forEach((weight, index) => {
      expect(weight).toBeCloseTo(weightsOf(theirs)[index] as number, 5);
    });
    for (const name of ['loss', 'acc']) {
      history?.history[name]?.forEach((value, epoch) => {
        expect(value).toBeCloseTo(expected.history[name]?.[epoch] as number, 4);
      });
    }
    expect(history?.epoch).toEqual([0, 1, 2]);
    expect(history?.steps).toBe(12);
  });

  test('one rank leaks no tensor', async () => {
    const model = makeModel(tf.train.adam(0.01), 0.3);
    await trainAll({}, [model], makeData(20), { epochs: 1, batchSize: 8 });
    const before = tf.memory().numTensors;
    await trainAll({}, [model], makeData(20), { epochs: 4, batchSize: 8 });
    expect(tf.memory().numTensors).toBe(before);
  });
});

describe('several ranks', () => {
  test('several ranks end with the same weights as one rank on whole batches, even if the last batches are uneven', async () => {
    for (const [worldSize, count] of [
      [2, 50],
      [3, 50],
      [4, 10],
      [3, 2],
    ] as const) {
      const data = makeData(count);
      const alone = makeModel(tf.train.sgd(0.1));
      const [single] = await trainAll({}, [alone], data, { epochs: 2, batchSize: 4 * worldSize });
      // Initial weights differ between ranks; training starts with rank 0's weights.
      const together = Array.from({ length: worldSize }, (_, rank) => makeModel(tf.train.sgd(0.1), 0, 7 + rank * 10));
      const histories = await trainAll({}, together, data, { epochs: 2, batchSize: 4 });
      for (const model of together) {
        expect(weightsOf(model)).toEqual(weightsOf(together[0] as tf.LayersModel));
      }
      weightsOf(alone).forEach((weight, index) => {
        expect(weightsOf(together[0] as tf.LayersModel)[index]).toBeCloseTo(weight, 5);
      });
      for (const history of histories) {
        expect(history.history.loss?.[1]).toBeCloseTo(single?.history.loss?.[1] as number, 4);
        expect(history.history.acc?.[1]).toBeCloseTo(single?.history.acc?.[1] as number, 4);
      }
    }
  });

  test('several ranks leak no tensor', async () => {
    const models = [makeModel(tf.train.adam(0.01)), makeModel(tf.train.adam(0.01))];
    await trainAll({}, models, makeData(20), { epochs: 1, batchSize: 4 });
    const before = tf.memory().numTensors;
    await trainAll({}, models, makeData(20), { epochs: 3, batchSize: 4 });
    expect(tf.memory().numTensors).toBe(before);
  });

  test('several ranks end with equal moving averages of batch normalisation', async () => {
    const make = () => {
      const model = tf.sequential();
      model.add(tf.layers.batchNormalization({ inputShape: [4] }));
      model.add(tf.layers.dense({ units: 3, activation: 'softmax' }));
      model.compile({ optimizer: 'sgd', loss: 'categoricalCrossentropy' });
      return model;
    };
    const models = [make(), make()];
    await trainAll({}, models, makeData(20), { epochs: 2, batchSize: 5 });
    expect(weightsOf(models[0] as tf.LayersModel)).toEqual(weightsOf(models[1] as tf.LayersModel));
  });

  test('learn', async () => {
    const models = [makeModel(tf.train.adam(0.02)), makeModel(tf.train.adam(0.02))];
    const [history] = await trainAll({}, models, makeData(300), { epochs: 30, batchSize: 16 });
    expect(history?.history.acc?.at(-1)).toBeGreaterThan(0.9);
  });
});

describe('a resumed run', () => {
  /** Ends a run after a given step, as a kill would, but waits for the run's checkpoints first. */
  class Stopped extends Error {}

  async function interrupted(
    world: World,
    models: tf.LayersModel[],
    data: TrainingData,
    options: FitOptions,
    steps: number,
  ): Promise<void> {
    const reports: Report[] = [];
    let last = 0;
    const onBatchEnd = (_: number, { step }: BatchLogs) => {
      last = step;
    };
    // The checkpoint of a step is written after the step's callbacks.
    const onBatchBegin = async () => {
      if (world.everySteps !== undefined && last > 0 && last % world.everySteps === 0) {
        await expect.poll(() => reports).toContainEqual({ type: 'checkpoint', step: last });
      }
      if (last === steps) {
        throw new Stopped();
      }
    };
    const callbacks = { onBatchBegin, onBatchEnd };
    await expect(trainAll({ ...world, reports }, models, data, { ...options, callbacks })).rejects.toThrow(Stopped);
  }

  const optimizers: Record<string, () => tf.Optimizer> = {
    adam: () => tf.train.adam(0.01),
    adamax: () => tf.train.adamax(0.01),
    adagrad: () => tf.train.adagrad(0.05),
    adadelta: () => tf.train.adadelta(0.1),
    momentum: () => tf.train.momentum(0.01, 0.9),
    // With `centered`, tfjs takes the root of `square - mean^2 - epsilon`, which is NaN for small gradients unless epsilon is negative.
    rmsprop: () => tf.train.rmsprop(0.01, 0.9, 0.5, -1e-7, true),
    sgd: () => tf.train.sgd(0.1),
  };

  test.each(Object.keys(optimizers))('a resumed run ends with the same bits as an uninterrupted run with %s', async (name) => {
    const optimizer = optimizers[name] as () => tf.Optimizer;
    const data = makeData(40);
    const options = { epochs: 3, batchSize: 3, seed: 5 };
    const straight = [makeModel(optimizer(), 0.4), makeModel(optimizer(), 0.4)];
    await trainAll({}, straight, data, options);
    const path = await folder();
    const first = [makeModel(optimizer(), 0.4), makeModel(optimizer(), 0.4)];
    await interrupted({ folder: path, everySteps: 5 }, first, data, options, 10);
    const second = [makeModel(optimizer(), 0.4, 100), makeModel(optimizer(), 0.4, 200)];
    const reports: Report[] = [];
    const [history] = await trainAll({ folder: path, everySteps: 5, generation: 2, reports }, second, data, options);
    expect(weightsOf(second[0] as tf.LayersModel)).toEqual(weightsOf(straight[0] as tf.LayersModel));
    expect(weightsOf(second[1] as tf.LayersModel)).toEqual(weightsOf(straight[0] as tf.LayersModel));
    expect(history?.steps).toBe(21);
    expect(reports.find(({ type }) => type === 'notice')).toMatchObject({ message: expect.stringContaining('step-10, step 10') });
    // The evaluator waits for the checkpoint that is marked as final.
    const newest = await new CheckpointStore(new FileStorage(), fileUri(path)).newest(() => {});
    expect(newest?.position).toMatchObject({ step: 21, epoch: 3, examples: 0, final: true });
  });

  test('a resumed run names the damaged checkpoint that it skips, and continues from the previous one', async () => {
    const data = makeData(40);
    const path = await folder();
    const options = { epochs: 1, batchSize: 2 };
    await interrupted({ folder: path, everySteps: 2 }, [makeModel(tf.train.adam(0.01))], data, options, 6);
    await truncate(join(path, 'step-6', 'tensors-00000-of-00001.bin'), 100);
    const reports: Report[] = [];
    const model = makeModel(tf.train.adam(0.01));
    const [history] = await trainAll({ folder: path, everySteps: 2, generation: 2, reports }, [model], data, options);
    const notices = reports.flatMap((report) => (report.type === 'notice' ? [report.message] : []));
    expect(notices[0]).toMatch(/^checkpoint step-6 is skipped: .*step-6\/tensors-00000-of-00001.bin has 100 bytes instead of \d+$/);
    expect(notices[1]).toMatch(/training resumes from .*step-4, step 4/);
    expect(history?.steps).toBe(20);
  });

  test('a resumed run takes no step and writes no checkpoint if the earlier run was complete', async () => {
    const data = makeData(40);
    const path = await folder();
    const model = makeModel(tf.train.adam(0.01));
    const [before] = await trainAll({ folder: path }, [model], data, { epochs: 2 });
    const manifest = () => readFile(join(path, 'step-4', 'manifest.json'), 'utf8');
    const written = await manifest();
    const again = makeModel(tf.train.adam(0.01), 0, 50);
    const [history] = await trainAll({ folder: path, generation: 2 }, [again], data, { epochs: 2 });
    expect(before).toMatchObject({ epoch: [0, 1], steps: 4 });
    expect(history).toEqual(before);
    expect(weightsOf(again)).toEqual(weightsOf(model));
    expect(await manifest()).toBe(written);
  });

  test('a resumed run rejects the checkpoint of another model', async () => {
    const path = await folder();
    await trainAll({ folder: path }, [makeModel(tf.train.adam(0.01))], makeData(8), {});
    const other = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4] })] });
    other.compile({ optimizer: 'adam', loss: 'meanSquaredError' });
    await expect(trainAll({ folder: path, generation: 2 }, [other], makeData(8), {})).rejects.toMatchObject({
      code: 'CHECKPOINT_MISMATCH',
    });
  });
});

describe('wrong input', () => {
  const attempt = (model: tf.LayersModel, data: TrainingData, options: FitOptions = {}) => trainAll({}, [model], data, options);

  test('wrong input causes errors that name the mistake', async () => {
    const bare = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4] })] });
    await expect(attempt(bare, makeData(8))).rejects.toThrow('the model is not compiled');
    const model = makeModel(tf.train.sgd(0.1));
    await expect(attempt(model, { ...makeData(8), y: { values: new Uint8Array(7), shape: [7] } })).rejects.toThrow(
      /different numbers of examples: 8, 7/,
    );
    await expect(attempt(model, makeData(0))).rejects.toThrow('the data has no examples');
    await expect(attempt(model, makeData(8), { batchSize: 0 })).rejects.toThrow(/batchSize of fit is 0/);
  });
});

test('models with several inputs and outputs report the metrics of each output', async () => {
  const [a, b] = [tf.input({ shape: [2] }), tf.input({ shape: [2] })];
  const both = tf.layers.concatenate().apply([a, b]) as tf.SymbolicTensor;
  const outputs = ['one', 'two'].map((name) => tf.layers.dense({ units: 1, name }).apply(both) as tf.SymbolicTensor);
  const model = tf.model({ inputs: [a, b], outputs });
  model.compile({ optimizer: 'sgd', loss: ['meanSquaredError', 'meanAbsoluteError'] });
  const column = (width: number) => ({ values: Float32Array.from({ length: 10 * width }, (_, index) => index / 10), shape: [10, width] });
  const [history] = await trainAll({}, [model], { x: [column(2), column(2)], y: [column(1), column(1)] }, { batchSize: 5, shuffle: false });
  expect(Object.keys(history?.history ?? {})).toEqual(['loss', 'one_loss', 'two_loss']);
  const { loss, one_loss: one, two_loss: two } = (history as FitHistory).history;
  expect((one?.[0] as number) + (two?.[0] as number)).toBeCloseTo(loss?.[0] as number, 4);
});

describe.each([1, 2])('the notice about weights that training does not change, on %i ranks', (workers) => {
  const noticesOf = (reports: readonly Report[][]) =>
    reports
      .flat()
      .flatMap((report) => (report.type === 'notice' && / depend on | became trainable /.test(report.message) ? [report.message] : []));

  async function noticesOfFit(change: (model: tf.LayersModel) => void): Promise<string[]> {
    const models = Array.from({ length: workers }, () => classifier(tf.train.sgd(0.1)));
    for (const model of models) {
      change(model);
    }
    const reports: Report[][] = models.map(() => []);
    await fitTogether(models, examples(24), { batchSize: 4 }, { reports });
    return noticesOf(reports);
  }

  test('the notice names weights on which the loss does not depend', async () => {
    class Idle extends tf.layers.Layer {
      static className = 'Idle';

      override build(): void {
        this.addWeight('idle', [1], 'float32', tf.initializers.ones());
        this.built = true;
      }

      override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
        return [inputs].flat()[0] as tf.Tensor;
      }
    }
    const models = Array.from({ length: workers }, () => {
      const model = tf.sequential({ layers: [new Idle({ inputShape: [4] }), tf.layers.dense({ units: 3 })] });
      model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
      return model;
    });
    const reports: Report[][] = models.map(() => []);
    await fitTogether(models, examples(24), { batchSize: 4 }, { reports });
    expect(noticesOf(reports)).toEqual([expect.stringMatching(/^the loss does not depend on \S*idle\S*, so training does not change it$/)]);
  });

  test('the notice omits weights that the program has frozen', async () => {
    expect(await noticesOfFit((model) => Object.assign(model.layers[0] as object, { trainable: false }))).toEqual([]);
  });

  test('the notice names weights that became trainable after compile', async () => {
    const models = Array.from({ length: workers }, () => {
      const model = classifier(tf.train.sgd(0.1));
      (model.layers[0] as tf.layers.Layer).trainable = false;
      model.compile({ optimizer: tf.train.sgd(0.1), loss: 'categoricalCrossentropy' });
      (model.layers[0] as tf.layers.Layer).trainable = true;
      return model;
    });
    const reports: Report[][] = models.map(() => []);
    await fitTogether(models, examples(24), { batchSize: 4 }, { reports });
    expect(noticesOf(reports)).toEqual([
      expect.stringMatching(
        /^training ignores \S+\/kernel, \S+\/bias, which became trainable after compile: call model\.compile\(\) again/,
      ),
    ]);
  });
});
