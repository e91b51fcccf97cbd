import type * as tfjs from '@tensorflow/tfjs';
import type { StepGradients, StepLoss, StepPart } from './step-part.ts';

/**
 * Computes the gradients of a weighted loss with separate operations.
 * @param compute computes the loss and the metrics. tf.tidy does not dispose the metrics.
 */
export function separateGradients(
  tf: typeof tfjs,
  variables: readonly tfjs.Variable[],
  compute: () => StepLoss,
  weight: number,
): StepGradients {
  let metrics: readonly tfjs.Scalar[] = [];
  const weighted = () => {
    const computed = compute();
    metrics = computed.metrics;
    // Weighting the loss also weights its gradients.
    return weight === 1 ? computed.loss : (tf.mul(computed.loss, weight) as tfjs.Scalar);
  };
  const { value, grads } = tf.variableGrads(weighted, [...variables]);
  return { loss: value, metrics, gradients: grads };
}

/** @param compute computes the loss and the metrics of this worker's examples. Null if it has none. */
export function separatePart(tf: typeof tfjs, compute: (() => StepLoss) | null, weight: number): StepPart {
  return { gradients: compute && ((variables, factor) => separateGradients(tf, variables, compute, factor)), weight };
}
