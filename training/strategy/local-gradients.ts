import type * as tfjs from '@tensorflow/tfjs';
import { LazyValues, type StepPart, type WeightedScalars } from '../model/step-part.ts';

/** The gradients, loss and metrics of one worker's step, as tensors on the backend. */
export interface LocalGradients {
  /**
   * The sum of the parts' weighted gradients, by variable name, or null if no part has examples. Variables on which the loss does not
   * depend are omitted. The caller must dispose the gradients.
   */
  readonly gradients: tfjs.NamedTensorMap | null;
  /** This worker's weighted share of the loss and the metrics. The caller must read or dispose the values. */
  readonly values: LazyValues;
}

/**
 * Computes the gradients of the parts (micro-batches) one after another, so that memory holds only the sums and one part's gradients at a
 * time.
 * @param onEmpty called for each part without examples.
 */
export function localGradients(
  tf: typeof tfjs,
  variables: readonly tfjs.Variable[],
  parts: readonly StepPart[],
  onEmpty: () => void = () => {},
): LocalGradients {
  let gradients: tfjs.NamedTensorMap | null = null;
  const shares: WeightedScalars[] = [];
  for (const part of parts) {
    if (part.gradients === null) {
      onEmpty();
      continue;
    }
    const { weight } = part;
    const own = part.gradients(variables, weight);
    // The loss has already been weighted.
    shares.push({ kind: 'loss', tensors: [own.loss], weight: 1 }, { kind: 'metrics', tensors: own.metrics, weight });
    gradients = gradients === null ? own.gradients : sumInPlace(tf, gradients, own.gradients);
  }
  return { gradients, values: new LazyValues(shares) };
}

function sumInPlace(tf: typeof tfjs, sums: tfjs.NamedTensorMap, more: tfjs.NamedTensorMap): tfjs.NamedTensorMap {
  // TensorFlow.js returns null for a frozen variable.
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
