import type * as tfjs from '@tensorflow/tfjs';
import { ALIGNMENT, MemoryWindow, type Place } from './native/memory-window.ts';
import { nativeKernelsOf } from './native/native-kernels.ts';
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
 * Each begins on a boundary of ALIGNMENT numbers, with zeros before it. Each rank has weighted its own by its share of the examples, so the
 * sum over the ranks is the mean over the examples. Where gradients travel as float16 the extras, which people read, follow by themselves as
 * float32.
 */
export class FusedGradients {
  readonly #tf: typeof tfjs;
  readonly #ring: Ring;
  readonly #wire: Wire;
  readonly #variables: readonly tfjs.Variable[];
  readonly #places: readonly Place[];
  readonly #vector: Float32Array<ArrayBuffer>;
  readonly #extrasAt: number;
  /** null where gradients are copied out of the backend, and in again. */
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

  /** @param gradients by variable name, weighted; null when this rank has no examples. Disposed here. */
  load(gradients: tfjs.NamedTensorMap | null): void {
    for (const [index, { name, size, shape }] of this.#variables.entries()) {
      const { at } = this.#places[index] as Place;
      const gradient = gradients?.[name];
      if (gradient === undefined || gradient === null) {
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

  /** @param use is given what lies in the ring's memory now, until it returns. */
  withTensors(use: (gradients: readonly NamedGradient[]) => void): void {
    const tensors =
      this.#window?.tensors ?? this.#variables.map((variable, index) => this.#tensorOf(variable, this.#places[index] as Place));
    use(this.#variables.map(({ name }, index) => ({ name, tensor: tensors[index] as tfjs.Tensor })));
    if (this.#window === null) {
      this.#tf.dispose([...tensors]);
    }
  }

  #tensorOf({ size, shape }: tfjs.Variable, { at }: Place): tfjs.Tensor {
    return this.#tf.tensor(this.#vector.subarray(at, at + size), shape, 'float32');
  }

  dispose(): void {
    this.#window?.dispose();
  }
}

function aligned(numbers: number): number {
  return Math.ceil(numbers / ALIGNMENT) * ALIGNMENT;
}
