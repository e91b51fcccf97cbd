import type * as tfjs from '@tensorflow/tfjs';
import type { NativeBackend } from './native-backend.ts';

/** The alignment that TensorFlow requires to use memory without copying: 16 float32 numbers, or 64 bytes. */
export const ALIGNMENT = 16;

/** The location of a tensor in an array. `numbers[at]` is the tensor's first number. */
export interface Place {
  readonly at: number;
  readonly shape: readonly number[];
}

interface Pane {
  readonly tensor: tfjs.Tensor;
  /**
   * The same memory as a matrix, because TensorFlow's InplaceUpdate writes rows. `indices` contains all row indices: 0, 1, 2, … `shape` is
   * the shape of the matrix, or null if the tensor already has that shape.
   */
  readonly rows: tfjs.Tensor;
  readonly indices: tfjs.Tensor;
  readonly shape: tfjs.Tensor | null;
}

/**
 * Tensors in memory that JavaScript has allocated. TensorFlow reads and writes them in place, without allocating arrays. Megabytes of new
 * arrays per step would make V8 pause for garbage collection every few steps.
 */
export class MemoryWindow {
  readonly #native: NativeBackend;
  readonly #panes: readonly Pane[];

  private constructor(native: NativeBackend, panes: readonly Pane[]) {
    this.#native = native;
    this.#panes = panes;
  }

  /**
   * Opens a window with one tensor per place. Overwrites the numbers at these places. Returns null if TensorFlow cannot use the memory in
   * place.
   */
  static open(native: NativeBackend, numbers: Float32Array, places: readonly Place[]): MemoryWindow | null {
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

  /** One tensor per place, with the memory's current contents. The caller must not dispose them. */
  get tensors(): readonly tfjs.Tensor[] {
    return this.#panes.map(({ tensor }) => tensor);
  }

  /** Copies `value` into the memory. `value` must be a float32 tensor with the shape of the place. */
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
   * Returns true if TensorFlow uses the memory in place. TensorFlow silently copies unsuitable memory. This method therefore writes through
   * each tensor and checks that the memory contains the written numbers.
   */
  #isOpen(numbers: Float32Array, places: readonly Place[]): boolean {
    const { tf } = this.#native;
    return places.every(({ at, shape }, index) => {
      const size = shape.reduce((product, length) => product * length, 1);
      numbers.fill(0, at, at + size);
      tf.tidy(() => this.write(index, tf.ones([...shape])));
      return numbers.subarray(at, at + size).every((number) => number === 1);
    });
  }
}

function paneOf({ tf }: NativeBackend, numbers: Float32Array, { at, shape }: Place): Pane {
  const size = shape.reduce((product, length) => product * length, 1);
  const memory = numbers.subarray(at, at + size);
  // TensorFlow copies several rows faster than one long row.
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
