import type * as tfjs from '@tensorflow/tfjs';

/** Float32 variables that each rank updates from its own examples. Each step replaces these variables with their mean over the ranks. */
export class MovingAverages {
  readonly #tf: typeof tfjs;
  readonly #variables: readonly tfjs.Variable[];
  readonly size: number;

  constructor(tf: typeof tfjs, variables: readonly tfjs.Variable[]) {
    this.#tf = tf;
    this.#variables = variables;
    this.size = variables.reduce((sum, { size }) => sum + size, 0);
  }

  /**
   * Writes the variables' values, multiplied by `weight`, to `into`. Leaves `into` unchanged if `weight` is 0.
   * @param weight this rank's share of the step's examples. The weights of all ranks add up to 1, so the sums over the ranks are means.
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
