import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { watchCompile } from './compile-arguments.ts';
import { inspectModel } from './compiled-model.ts';

watchCompile(tf);
watchCompile(tf);

const layers = () => [tf.layers.dense({ units: 1, inputShape: [2] })];
const MODELS = {
  sequential: () => tf.sequential({ layers: layers() }),
  functional: () => {
    const { input, output } = tf.sequential({ layers: layers() }) as unknown as { input: tf.SymbolicTensor; output: tf.SymbolicTensor };
    return tf.model({ inputs: input, outputs: output });
  },
};
const good = () => ({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError', metrics: ['mae'] });

test.each(Object.entries(MODELS))('fit rejects a %s model that was compiled with arguments that TensorFlow.js ignores', (_, create) => {
  const model = create();
  for (const [argument, hint] of [
    ['lossWeights', 'Multiply the losses'],
    ['sampleWeightMode', 'sampleWeight'],
    ['weightedMetrics', 'as metrics'],
    ['metric', 'Did you mean metrics?'],
    ['runEagerly', 'Remove it.'],
  ] as const) {
    model.compile({ ...good(), [argument]: [1] } as tf.ModelCompileArgs);
    expect(() => inspectModel(tf, model)).toThrow(
      expect.objectContaining({
        code: 'MODEL_INVALID',
        message: `TensorFlow.js ignores the argument ${argument} of model.compile`,
        hint: expect.stringContaining(hint),
      }),
    );
  }
  model.compile(good());
  expect(inspectModel(tf, model).metricNames).toEqual(['loss', 'mae']);
});
