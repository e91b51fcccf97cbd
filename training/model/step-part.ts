import type * as tfjs from '@tensorflow/tfjs';

/** A micro-batch's results, as tensors on the backend. */
export interface StepLoss {
  /** The loss to minimise, including regularisation. */
  readonly loss: tfjs.Scalar;
  /** The metrics. The strategy that takes the step must dispose them, because tf.tidy does not. */
  readonly metrics: readonly tfjs.Scalar[];
}

/** A micro-batch's weighted loss, its metrics, and the gradients of the weighted loss by variable name. The caller must dispose them. */
export interface StepGradients extends StepLoss {
  readonly gradients: tfjs.NamedTensorMap;
}

/** A micro-batch. An optimizer step sums the gradients of one or more micro-batches. */
export interface StepPart {
  /** Computes the gradients of the weighted loss for this worker's examples. Null if the worker has no examples. */
  readonly gradients: ((variables: readonly tfjs.Variable[], weight: number) => StepGradients) | null;
  /** The part's weight, which is its share of the step's examples. The weights of all parts on all workers add up to 1. */
  readonly weight: number;
}

/** A step's results: the mean loss and the mean metrics over the step's examples. */
export interface StepValues {
  /** Returns the loss, followed by the metrics. The call may wait for the backend, so avoid it in most steps. */
  read(): readonly number[];
  dispose(): void;
}

export interface WeightedScalars {
  readonly kind: 'loss' | 'metrics';
  readonly tensors: readonly tfjs.Scalar[];
  readonly weight: number;
}

/** Keeps scalars on the backend until `read` is called. */
export class LazyValues implements StepValues {
  #shares: readonly WeightedScalars[] | null;
  #values: readonly number[] = [];

  /** @param shares tensors whose weighted sums are the values. `read` and `dispose` dispose these tensors. */
  constructor(shares: readonly WeightedScalars[]) {
    this.#shares = shares;
  }

  read(): readonly number[] {
    if (this.#shares !== null) {
      const sums: number[] = [];
      for (const { kind, tensors, weight } of this.#shares) {
        for (const [index, tensor] of tensors.entries()) {
          const at = kind === 'loss' ? 0 : index + 1;
          sums[at] = (sums[at] ?? 0) + (tensor.dataSync()[0] as number) * weight;
        }
      }
      this.#values = sums;
      this.dispose();
    }
    return this.#values;
  }

  dispose(): void {
    for (const { tensors } of this.#shares ?? []) {
      for (const tensor of tensors) {
        tensor.dispose();
      }
    }
    this.#shares = null;
  }
}
