import type * as tfjs from '@tensorflow/tfjs';
import { FusedGradients, type NamedGradient } from './gradients.ts';
import { FusedOptimizer } from './native/fused-optimizer.ts';
import type { Ring } from './ring.ts';

/** Synchronous steps: the gradients of all ranks, averaged, are applied on each of them by the same optimizer. */
export class Stepper {
  readonly #tf: typeof tfjs;
  readonly #optimizer: FusedOptimizer;
  readonly #variables: readonly tfjs.Variable[];
  readonly #fused: FusedGradients | null;

  constructor(tf: typeof tfjs, ring: Ring, optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[], extras = 0) {
    this.#tf = tf;
    this.#optimizer = new FusedOptimizer(tf, optimizer);
    this.#variables = variables;
    this.#fused = ring.worldSize === 1 ? null : new FusedGradients(tf, ring, variables, extras + 1);
  }

  /**
   * @param compute the loss of this rank's examples; null when it has none in this step (weight 0).
   * @param weight this rank's share of the step's examples; the shares of all ranks add up to 1.
   * @param readExtras numbers to be averaged with the loss, read after `compute` has run.
   * @returns the mean loss, and the means of the extras.
   */
  async run(compute: (() => tfjs.Scalar) | null, weight: number, readExtras: () => readonly number[] = () => []): Promise<number[]> {
    const tf = this.#tf;
    const variables = [...this.#variables];
    if (this.#fused === null) {
      if (compute === null) {
        return [0];
      }
      const { value, grads } = tf.variableGrads(compute, variables);
      this.#apply(variables.map(({ name }) => ({ name, tensor: grads[name] as tfjs.Tensor })));
      const loss = value.dataSync()[0] as number;
      value.dispose();
      return [loss, ...readExtras()];
    }
    let gradients: tfjs.NamedTensorMap | null = null;
    let loss = 0;
    if (compute !== null) {
      // The weight goes into the loss: that weights all gradients at no cost.
      const { value, grads } = tf.variableGrads(() => tf.mul(compute(), weight) as tfjs.Scalar, variables);
      gradients = grads;
      // Gradients have to leave the backend anyway, so this reads four bytes more and waits for nothing.
      loss = value.dataSync()[0] as number;
      value.dispose();
    }
    const extras = readExtras().map((extra) => extra * weight);
    const summed = await this.#fused.sum(gradients, [loss, ...extras]);
    this.#apply(summed.gradients);
    return summed.extras;
  }

  /** Why steps do not go by native kernels; null when they do. */
  get reasonOfSlowSteps(): string | null {
    return this.#optimizer.reason;
  }

  /** Frees what native kernels hold; variables and the optimizer stay as they are. */
  dispose(): void {
    this.#optimizer.dispose();
  }

  #apply(gradients: NamedGradient[]): void {
    this.#optimizer.apply(gradients);
    for (const { tensor } of gradients) {
      // A variable that the loss does not depend on has none.
      tensor?.dispose();
    }
  }
}
