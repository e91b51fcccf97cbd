import type * as tfjs from '@tensorflow/tfjs';
import type { Ring } from './ring.ts';
import type { Wire } from './ring-exchange.ts';

/** As `applyGradients` takes it. */
export interface NamedGradient {
  readonly name: string;
  readonly tensor: tfjs.Tensor;
}

/**
 * The gradients of all variables, and a few numbers more, in one vector of the ring's memory:
 *
 *   | gradient of variable 0 | gradient of variable 1 | ... | extra numbers (loss, metrics, signals) |
 *
 * Each rank has weighted its own by its share of the examples, so the sum over the ranks is the mean over the examples. Where gradients
 * travel as float16 the extras, which people read, follow by themselves as float32.
 */
export class FusedGradients {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #wire: Wire;
  readonly #variables: readonly tfjs.Variable[];
  readonly #vector: Float32Array<ArrayBuffer>;
  readonly #extrasAt: number;

  constructor(tf: typeof tfjs, ring: Ring, variables: readonly tfjs.Variable[], extras: number, wire: Wire) {
    this.#tf = tf;
    this.#ring = ring;
    this.#wire = wire;
    this.#variables = variables;
    this.#extrasAt = variables.reduce((sum, { size }) => sum + size, 0);
    this.#vector = ring.vector(this.#extrasAt + extras, wire);
  }

  /** @param gradients by variable name, weighted; null when this rank has no examples. Disposed here. */
  load(gradients: tfjs.NamedTensorMap | null): void {
    const vector = this.#vector;
    let at = 0;
    for (const variable of this.#variables) {
      const gradient = gradients?.[variable.name];
      if (gradient === undefined || gradient === null) {
        vector.fill(0, at, at + variable.size);
      } else {
        vector.set(gradient.dataSync() as Float32Array, at);
        gradient.dispose();
      }
      at += variable.size;
    }
  }

  /** Of what was loaded. @param extras replaced by their sums. */
  async sum(extras: Float32Array): Promise<void> {
    const vector = this.#vector;
    if (this.#wire === 'float32') {
      vector.set(extras, this.#extrasAt);
      await this.#ring.allReduce(vector);
      extras.set(vector.subarray(this.#extrasAt));
    } else {
      await Promise.all([this.#ring.allReduce(extras), this.#ring.allReduce(this.numbers, 'sum', this.#wire)]);
    }
  }

  /** All gradients as one vector. */
  get numbers(): Float32Array<ArrayBuffer> {
    return this.#vector.subarray(0, this.#extrasAt);
  }

  /** To be disposed; views of the ring's memory until the next `load`. */
  tensors(): NamedGradient[] {
    let at = 0;
    return this.#variables.map((variable) => {
      const tensor = this.#tf.tensor(this.#vector.subarray(at, at + variable.size), variable.shape, 'float32');
      at += variable.size;
      return { name: variable.name, tensor };
    });
  }
}
