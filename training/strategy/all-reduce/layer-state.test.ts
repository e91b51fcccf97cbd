import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { Report } from '../../../contract/process/task-context.ts';
import { examples, fitTogether } from '../../testing/fit-world.ts';
import { ringOf } from '../../testing/resources.ts';
import { LayerState } from './layer-state.ts';

/** A layer whose state is its largest training input so far. */
class Peak extends tf.layers.Layer {
  static className = 'Peak';
  #peak: { read(): tf.Tensor; write(value: tf.Tensor): void } | null = null;

  override build(): void {
    this.#peak = this.addWeight('peak', [1], 'float32', tf.initializers.zeros(), undefined, false);
    this.built = true;
  }

  override call(inputs: tf.Tensor | tf.Tensor[], kwargs: { training?: boolean }): tf.Tensor {
    const input = [inputs].flat()[0] as tf.Tensor;
    if (kwargs.training) {
      tf.tidy(() => this.#peak?.write(tf.maximum(this.#peak.read(), tf.reshape(tf.max(input), [1]))));
    }
    return input;
  }
}

function modelWith(extra: readonly tf.layers.Layer[]): tf.Sequential {
  const dense = tf.layers.dense({ units: 3, kernelInitializer: tf.initializers.glorotUniform({ seed: 1 }) });
  const model = tf.sequential({ layers: [tf.layers.activation({ activation: 'linear', inputShape: [4] }), ...extra, dense] });
  model.compile({ optimizer: tf.train.sgd(0.01), loss: 'meanSquaredError' });
  return model;
}

describe.each([
  ['alone', () => []],
  ['next to batch normalisation', () => [tf.layers.batchNormalization({})]],
])('the state of a custom layer, %s', (_, more) => {
  test('the state is equal on all ranks at the end of training, and a notice names the variable', async () => {
    const models = [0, 1].map(() => modelWith([new Peak(), ...more()]));
    const reports: Report[][] = [[], []];
    await fitTogether(models, examples(48), { batchSize: 8, epochs: 2 }, { reports });
    const [one, other] = models.map((model) => model.getWeights().map((weight) => [...weight.dataSync()]));
    expect(one).toEqual(other);
    const notices = reports
      .flat()
      .flatMap((report) => (report.type === 'notice' && report.message.includes('peak') ? [report.message] : []));
    expect(notices).toEqual([expect.stringMatching(/^layers update \S*peak\S* from each rank's own examples; .* the mean over the ranks/)]);
  });
});

test('state that is already equal on all ranks keeps its exact bits', async () => {
  const rings = await ringOf(3);
  const frozen = rings.map(() => tf.variable(tf.tensor1d([0.1, 1 / 3, 16_777_217])));
  const before = [...(frozen[0] as tf.Variable).dataSync()];
  await Promise.all(rings.map((ring, rank) => new LayerState(tf, ring, [], [frozen[rank] as tf.Variable], () => {}).agree()));
  for (const variable of frozen) {
    expect([...variable.dataSync()]).toEqual(before);
  }
});
