import type * as tfjs from '@tensorflow/tfjs';
import { ALIGNMENT, MemoryWindow, type WindowPlace } from '../../backend/native/memory-window.ts';
import { nativeKernelsOf } from '../../backend/native/native-kernels.ts';
import type { NamedGradient } from '../../optimizer/named-gradient.ts';
import type { Ring } from '../../ring/ring.ts';
import type { Wire } from '../../ring/ring-exchange.ts';

/**
 * Stores the gradients of all variables and a few extra numbers in one vector in the ring's memory:
 *
 *   | gradient of variable 0 | gradient of variable 1 | ... | extra numbers (loss, metrics, signals) |
 *
 * Each gradient begins at a multiple of ALIGNMENT numbers. The gaps contain zeros. Each rank weights its gradients by its share of the
 * examples, so the sum over the ranks is the mean over the examples. The extra numbers are always sent as float32, even if gradients are
 * sent as float16, because users see them.
 */
export class FusedGradients {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #wire: Wire;
  readonly #variables: readonly tfjs.Variable[];
  readonly #places: readonly WindowPlace[];
  readonly #vector: Float32Array<ArrayBuffer>;
  readonly #extrasAt: number;
  /** Gives the backend direct access to the ring's memory. Null if the backend does not support this and gradients must be copied. */
  readonly #window: MemoryWindow | null;

  constructor(tf: typeof tfjs, ring: Ring, variables: readonly tfjs.Variable[], extras: number, wire: Wire) {
    this.#tf = tf;
    this.#ring = ring;
    this.#wire = wire;
    this.#variables = variables;
    let end = 0;
    this.#places = variables.map(({ size, shape }) => {
      const at = end;
      end = aligned(at + size);
      return { at, shape };
    });
    this.#extrasAt = end;
    this.#vector = ring.vector(this.#extrasAt + extras, wire);
    const native = nativeKernelsOf(tf);
    this.#window = native === null ? null : MemoryWindow.open(native, this.#vector, this.#places);
  }

  /**
   * Copies this rank's gradients into the vector and disposes the gradient tensors.
   * @param gradients weighted gradients by variable name, or null if this rank has no examples.
   * @param present receives one number per variable: 1 if this rank has a gradient for the variable, otherwise 0.
   */
  load(gradients: tfjs.NamedTensorMap | null, present: Float32Array): void {
    for (const [index, { name, size, shape }] of this.#variables.entries()) {
      const { at } = this.#places[index] as WindowPlace;
      const gradient = gradients?.[name];
      const isMissing = gradient === undefined || gradient === null;
      present[index] = isMissing ? 0 : 1;
      if (isMissing) {
        this.#vector.fill(0, at, at + size);
        continue;
      }
      if (this.#window !== null && gradient.dtype === 'float32' && this.#tf.util.arraysEqual(gradient.shape, shape)) {
        this.#window.write(index, gradient);
      } else {
        this.#vector.set(gradient.dataSync() as Float32Array, at);
      }
      gradient.dispose();
    }
  }

  /** Sums the loaded gradients over all ranks. @param extras replaced with their sums over all ranks. */
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

  get numbers(): Float32Array<ArrayBuffer> {
    return this.#vector.subarray(0, this.#extrasAt);
  }

  /**
   * Passes the gradients to `use` as tensors. A variable that has no gradient on any rank gets null instead of zeros: with zeros, momentum
   * and decay would still change the variable.
   * @param present the numbers set by `load`, summed over the ranks.
   * @param use must not keep the tensors, because they may share the ring's memory.
   */
  withTensors(present: Float32Array, use: (gradients: readonly NamedGradient[]) => void): void {
    const tensors =
      this.#window?.tensors ?? this.#variables.map((variable, index) => this.#tensorOf(variable, this.#places[index] as WindowPlace));
    use(this.#variables.map(({ name }, index) => ({ name, tensor: present[index] === 0 ? null : (tensors[index] as tfjs.Tensor) })));
    if (this.#window === null) {
      this.#tf.dispose([...tensors]);
    }
  }

  #tensorOf({ size, shape }: tfjs.Variable, { at }: WindowPlace): tfjs.Tensor {
    return this.#tf.tensor(this.#vector.subarray(at, at + size), shape, 'float32');
  }

  dispose(): void {
    this.#window?.dispose();
  }
}

function aligned(numbers: number): number {
  return Math.ceil(numbers / ALIGNMENT) * ALIGNMENT;
}
