import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { inspectModel } from './compiled-model.ts';

afterEach(() => {
  tf.disposeVariables();
});

const LOSSES = [
  ...['meanSquaredError', 'meanAbsoluteError', 'binaryCrossentropy', 'categoricalCrossentropy', 'sparseCategoricalCrossentropy'],
  ...['cosineProximity', 'hinge'],
] as const;
const own = (truth: tf.Tensor, predicted: tf.Tensor) => tf.mean(tf.square(tf.sub(truth, predicted)), -1);

function modelOf(units: number, isSequence: boolean, loss: string): tf.Sequential {
  const model = tf.sequential({ layers: [tf.layers.dense({ units, inputShape: isSequence ? [null, 3] : [3], activation: 'sigmoid' })] });
  model.compile({ optimizer: 'sgd', loss: loss === 'own' ? own : loss });
  return model;
}

async function refusal(work: () => unknown): Promise<unknown> {
  try {
    await work();
    return null;
  } catch (error) {
    return error;
  }
}

describe('a batch of any shapes', () => {
  test('is refused with DATA_INVALID exactly if model.trainOnBatch refuses it', async () => {
    const size = fc.integer({ min: 1, max: 4 });
    const program = fc.record({
      units: size,
      isSequence: fc.boolean(),
      loss: fc.constantFrom(...LOSSES, 'own'),
      x: fc.array(fc.constantFrom(2, 3), { minLength: 0, maxLength: 2 }),
      y: fc.array(size, { maxLength: 2 }),
      rows: fc.constantFrom(2, 3),
    });
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(program, async ({ units, isSequence, loss, x, y, rows }) => {
        // With one class, the loss fails for any target.
        const model = modelOf(loss === 'sparseCategoricalCrossentropy' ? units + 1 : units, isSequence, loss);
        const [input, target] = [tf.ones([2, ...x]), tf.zeros([rows, ...y])];
        const plain = await refusal(() => model.trainOnBatch(input, target));
        const ours = await refusal(() => inspectModel(tf, model).lossOf([input], [target]));
        // Sequences of different lengths pass the checks of both, and fail in the loss.
        fc.pre(!(plain !== null && isSequence && y.length === 2 && x.length === 2 && x[0] !== y[0]));
        expect(ours === null).toBe(plain === null);
        if (ours !== null) {
          expect(ours).toMatchObject({ code: 'DATA_INVALID' });
          refused++;
        }
        tf.dispose([input, target]);
      }),
      { numRuns: 400 },
    );
    expect(refused).toBeGreaterThan(100);
  });

  test('is refused with the name, the shapes and the next step', () => {
    const classes = inspectModel(tf, modelOf(4, false, 'categoricalCrossentropy'));
    const [name] = classes.model.outputNames;
    expect(() => classes.lossOf([tf.ones([8, 3])], [tf.ones([8])])).toThrow(
      expect.objectContaining({
        message: `the targets of output ${name} have one number for each example`,
        hint: expect.stringContaining('sparseCategoricalCrossentropy'),
      }),
    );
    expect(() => classes.evaluate([tf.ones([8, 3])], [tf.ones([8, 2])])).toThrow(
      `the target of output ${name} has the shape [2] for each example, but must have [4]`,
    );
    expect(() => classes.lossOf([tf.ones([8, 2])], [tf.ones([8, 4])])).toThrow(
      /^the input \S+ has the shape \[2\] for each example, but must have \[3\]$/,
    );
    expect(() => classes.lossOf([tf.ones([8, 3])], [tf.ones([7, 4])])).toThrow(
      'the inputs and targets of a batch have different numbers of examples: 8, 7',
    );
  });
});
