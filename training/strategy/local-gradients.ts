import type * as tfjs from '@tensorflow/tfjs';
import { LazyValues, type Share, type StepPart } from '../model/step-part.ts';

/** The gradients, loss and metrics of one worker's examples in one step, on its backend. */
export interface LocalGradients {
  /**
   * Gradients by variable name, weighted and summed over the parts, for the variables that the loss depends on. null without examples. The
   * caller must dispose them.
   */
  readonly gradients: tfjs.NamedTensorMap | null;
  /** This worker's weighted share of the loss and the metrics. The caller must read or dispose them. */
  readonly values: LazyValues;
}

/**
 * Computes the parts one after the other, so that memory holds the gradients of one part and the sums.
 * @param onEmpty called for each part without examples.
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
      // Weighting the loss weights all gradients at no cost.
      return weight === 1 ? computed.loss : (tf.mul(computed.loss, weight) as tfjs.Scalar);
    };
    const { value, grads } = tf.variableGrads(weighted, [...variables]);
    // The loss is already weighted.
    shares.push({ kind: 'loss', tensors: [value], weight: 1 }, { kind: 'metrics', tensors: metrics, weight });
    gradients = gradients === null ? grads : sumInPlace(tf, gradients, grads);
  }
  return { gradients, values: new LazyValues(shares) };
}

function sumInPlace(tf: typeof tfjs, sums: tfjs.NamedTensorMap, more: tfjs.NamedTensorMap): tfjs.NamedTensorMap {
  // A frozen variable has a null entry.
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
