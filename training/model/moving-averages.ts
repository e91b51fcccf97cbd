import type * as tfjs from '@tensorflow/tfjs';

/**
 * Float32 variables that each rank updates from its own examples. A step averages them over the ranks. This class converts them to and from
 * the numbers that the ranks exchange.
 */
export class MovingAverages {
  readonly #tf: typeof tfjs;
  readonly #variables: readonly tfjs.Variable[];
  /** The number of floats in all variables together. */
  readonly size: number;

  constructor(tf: typeof tfjs, variables: readonly tfjs.Variable[]) {
    this.#tf = tf;
    this.#variables = variables;
    this.size = variables.reduce((sum, { size }) => sum + size, 0);
  }

  /**
   * Writes the values times `weight` into `into`.
   * @param weight this rank's share of the step's examples, so the sums over all ranks are means. If it is 0, `into` does not change.
   */
  read(into: Float32Array, weight: number): void {
    let at = 0;
    for (const variable of weight === 0 ? [] : this.#variables) {
      into.set(variable.dataSync() as Float32Array, at);
      at += variable.size;
    }
    for (let index = 0; index < at; index++) {
      into[index] = (into[index] as number) * weight;
    }
  }

  write(from: Float32Array): void {
    let at = 0;
    for (const variable of this.#variables) {
      const numbers = from.slice(at, at + variable.size);
      this.#tf.tidy(() => variable.assign(this.#tf.tensor(numbers, variable.shape, 'float32')));
      at += variable.size;
    }
  }
}
