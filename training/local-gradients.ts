import type * as tfjs from '@tensorflow/tfjs';
import { LazyValues, type Share, type StepPart } from './step-part.ts';

/** What one worker's examples come to in one step, on its backend. */
export interface LocalGradients {
  /** By variable name, weighted and summed over the parts; of variables that the loss depends on. null without examples. To be disposed. */
  readonly gradients: tfjs.NamedTensorMap | null;
  /** This worker's weighted share of the loss and the metrics. To be read, or disposed. */
  readonly values: LazyValues;
}

/**
 * Computes the parts one after the other: only one is in memory at a time, beside the sums.
 * @param onEmpty called in the place of a part without examples.
 */
export function localGradients(
  tf: typeof tfjs,
  variables: readonly tfjs.Variable[],
  parts: readonly StepPart[],
  onEmpty: () => void = () => {},
): LocalGradients {
  let gradients: tfjs.NamedTensorMap | null = null;
  const shares: Share[] = [];
  for (const { compute, weight } of parts) {
    if (compute === null) {
      onEmpty();
      continue;
    }
    let metrics: readonly tfjs.Scalar[] = [];
    const weighted = () => {
      const computed = compute();
      metrics = computed.metrics;
      // The weight goes into the loss: that weights all gradients at no cost.
      return weight === 1 ? computed.loss : (tf.mul(computed.loss, weight) as tfjs.Scalar);
    };
    const { value, grads } = tf.variableGrads(weighted, [...variables]);
    // The loss is weighted already.
    shares.push({ kind: 'loss', tensors: [value], weight: 1 }, { kind: 'metrics', tensors: metrics, weight });
    gradients = gradients === null ? grads : sumInPlace(tf, gradients, grads);
  }
  return { gradients, values: new LazyValues(shares) };
}

function sumInPlace(tf: typeof tfjs, sums: tfjs.NamedTensorMap, more: tfjs.NamedTensorMap): tfjs.NamedTensorMap {
  // A variable that is not to be trained is there without a gradient.
  for (const [name, gradient] of Object.entries(more as Record<string, tfjs.Tensor | null>)) {
    const sum = sums[name];
    if (gradient === null) {
      continue;
    }
    if (sum === undefined || sum === null) {
      sums[name] = gradient;
    } else {
      sums[name] = tf.add(sum, gradient);
      sum.dispose();
      gradient.dispose();
    }
  }
  return sums;
}
