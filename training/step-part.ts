import type * as tfjs from '@tensorflow/tfjs';

/** What a micro-batch comes to: scalars on the backend. */
export interface StepLoss {
  /** To be minimised, regularisation included. */
  readonly loss: tfjs.Scalar;
  /** Kept beyond tf.tidy; disposed by whoever takes the step. */
  readonly metrics: readonly tfjs.Scalar[];
}

/** A micro-batch: one of those whose gradients make a step of the optimizer together. */
export interface StepPart {
  /** Of this worker's examples; called within tf.tidy. null when it has none. */
  readonly compute: (() => StepLoss) | null;
  /** This worker's share of the step's examples: those of all parts of all workers add up to 1. */
  readonly weight: number;
}

/** What a step came to: the means of the loss and of the metrics over the step's examples. */
export interface StepValues {
  /** Waits for the backend when they have not left it yet, so not to be called in each step. The loss, then the metrics. */
  read(): readonly number[];
  /** What was not read by now is lost. */
  dispose(): void;
}

/** The loss, or metrics from the first one on, of one part. */
export interface Share {
  readonly kind: 'loss' | 'metrics';
  readonly tensors: readonly tfjs.Scalar[];
  readonly weight: number;
}

/** Scalars that stay on the backend until somebody asks. */
export class LazyValues implements StepValues {
  #shares: readonly Share[] | null;
  #values: readonly number[] = [];

  /** @param shares their weighted sums are the values; disposed here. */
  constructor(shares: readonly Share[]) {
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
