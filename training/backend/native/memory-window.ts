import type * as tfjs from '@tensorflow/tfjs';
import type { NativeBackend } from './native-backend.ts';

/** The alignment required by TensorFlow, as a number of float32 values. TensorFlow copies memory that is not aligned to 64 bytes. */
export const ALIGNMENT = 16;

/** Location and shape of a tensor in an array of numbers. `at` is the index of the tensor's first number. */
export interface WindowPlace {
  readonly at: number;
  readonly shape: readonly number[];
}

interface Pane {
  readonly tensor: tfjs.Tensor;
  /**
   * The tensor's memory as a matrix, because TensorFlow's InplaceUpdate writes rows. `indices` contains all row indices. `shape` is the
   * matrix shape, or null if the tensor is already a matrix.
   */
  readonly rows: tfjs.Tensor;
  readonly indices: tfjs.Tensor;
  readonly shape: tfjs.Tensor | null;
}

/**
 * Tensors whose memory is allocated in JavaScript. TensorFlow reads and writes them in place. Without this class, each step would allocate
 * megabytes of arrays, and garbage collection would pause training every few steps.
 */
export class MemoryWindow {
  readonly #native: NativeBackend;
  readonly #panes: readonly Pane[];

  private constructor(native: NativeBackend, panes: readonly Pane[]) {
    this.#native = native;
    this.#panes = panes;
  }

  /** Creates one tensor for each place, and overwrites the numbers at that place. Returns null if TensorFlow would copy the memory. */
  static open(native: NativeBackend, numbers: Float32Array, places: readonly WindowPlace[]): MemoryWindow | null {
    if (native.usesGpu) {
      return null;
    }
    const window = new MemoryWindow(
      native,
      places.map((place) => paneOf(native, numbers, place)),
    );
    if (window.#isOpen(numbers, places)) {
      return window;
    }
    window.dispose();
    return null;
  }

  /** One tensor for each place. The caller must not dispose the tensors. */
  get tensors(): readonly tfjs.Tensor[] {
    return this.#panes.map(({ tensor }) => tensor);
  }

  /** Copies `value` into the memory at the place with this index. `value` must be a float32 tensor with that place's shape. */
  write(index: number, value: tfjs.Tensor): void {
    const { rows, indices, shape } = this.#panes[index] as Pane;
    const source = shape === null ? value : this.#native.run('Reshape', [value, shape], [this.#native.integerType('Tshape')]);
    this.#native.run('InplaceUpdate', [rows, indices, source]).dispose();
    if (source !== value) {
      source.dispose();
    }
  }

  dispose(): void {
    for (const { tensor, rows, indices, shape } of this.#panes) {
      this.#native.tf.dispose([tensor, rows, indices, ...(shape === null ? [] : [shape])]);
    }
  }

  /**
   * Returns true if TensorFlow uses the memory in place. TensorFlow reports no error when it copies memory instead, so this method writes
   * to each tensor and checks that the numbers appear in the memory.
   */
  #isOpen(numbers: Float32Array, places: readonly WindowPlace[]): boolean {
    const { tf } = this.#native;
    return places.every(({ at, shape }, index) => {
      const size = shape.reduce((product, length) => product * length, 1);
      numbers.fill(0, at, at + size);
      tf.tidy(() => this.write(index, tf.ones([...shape])));
      return numbers.subarray(at, at + size).every((number) => number === 1);
    });
  }
}

function paneOf({ tf }: NativeBackend, numbers: Float32Array, { at, shape }: WindowPlace): Pane {
  const size = shape.reduce((product, length) => product * length, 1);
  const memory = numbers.subarray(at, at + size);
  // TensorFlow copies a matrix with several rows faster than it copies one long row.
  const hasRows = shape.length > 1;
  const count = hasRows ? (shape[0] as number) : 1;
  const indices = Int32Array.from({ length: count }, (_, row) => row);
  return {
    tensor: tf.keep(tf.tensor(memory, [...shape], 'float32')),
    rows: tf.keep(tf.tensor(memory, hasRows ? [...shape] : [1, size], 'float32')),
    indices: tf.keep(tf.tensor1d(indices, 'int32')),
    shape: hasRows ? null : tf.keep(tf.tensor1d([1, size], 'int32')),
  };
}
