import type * as tfjs from '@tensorflow/tfjs';
import type { Ring } from './ring.ts';

/** As `applyGradients` takes it. */
export interface NamedGradient {
  readonly name: string;
  readonly tensor: tfjs.Tensor;
}

/**
 * The gradients of all variables, and a few numbers more, in one vector of the ring's memory:
 *
 *   | gradient of variable 0 | gradient of variable 1 | ... | extra numbers (loss, metrics) |
 *
 * Each rank has weighted its own by its share of the examples, so the sum over the ranks is the mean over the examples.
 */
export class FusedGradients {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #variables: readonly tfjs.Variable[];
  readonly #vector: Float32Array<ArrayBuffer>;
  readonly #extrasAt: number;

  constructor(tf: typeof tfjs, ring: Ring, variables: readonly tfjs.Variable[], extras: number) {
    this.#tf = tf;
    this.#ring = ring;
    this.#variables = variables;
    this.#extrasAt = variables.reduce((sum, { size }) => sum + size, 0);
    this.#vector = ring.vector(this.#extrasAt + extras);
  }

  /**
   * @param gradients by variable name, weighted; null when this rank has no examples. Disposed here.
   * @param extras weighted as well.
   * @returns gradients to apply (views of the ring's memory until the next call; to be disposed), and the summed extras.
   */
  async sum(
    gradients: tfjs.NamedTensorMap | null,
    extras: readonly number[],
  ): Promise<{ readonly gradients: NamedGradient[]; readonly extras: number[] }> {
    const vector = this.#vector;
    let at = 0;
    for (const variable of this.#variables) {
      const gradient = gradients?.[variable.name];
      if (gradient === undefined) {
        vector.fill(0, at, at + variable.size);
      } else {
        vector.set(gradient.dataSync() as Float32Array, at);
        gradient.dispose();
      }
      at += variable.size;
    }
    vector.set(extras, this.#extrasAt);
    await this.#ring.allReduce(vector);
    at = 0;
    const summed = this.#variables.map((variable) => {
      const tensor = this.#tf.tensor(vector.subarray(at, at + variable.size), variable.shape, 'float32');
      at += variable.size;
      return { name: variable.name, tensor };
    });
    return { gradients: summed, extras: Array.from(vector.subarray(this.#extrasAt, this.#extrasAt + extras.length)) };
  }
}
