import type * as tfjs from '@tensorflow/tfjs';

/*
 * What tfjs-node and tfjs-node-gpu offer beside the interface of all backends: any operation of TensorFlow's C library, by its name, with its
 * attributes and inputs as TensorFlow's own list of operations has them.
 */

/** Numbers that name types in TensorFlow's C interface. */
interface TypeNumbers {
  readonly TF_FLOAT: number;
  readonly TF_INT32: number;
  readonly TF_ATTR_TYPE: number;
  readonly TF_ATTR_STRING: number;
  readonly TF_ATTR_SHAPE: number;
  readonly TF_ATTR_BOOL: number;
  readonly TF_ATTR_INT: number;
  readonly TF_ATTR_FLOAT: number;
}

export interface Attribute {
  readonly name: string;
  readonly type: number;
  readonly value: number | boolean | string | readonly number[];
}

interface Executor {
  readonly binding: TypeNumbers;
  executeSingleOutput(operation: string, attributes: readonly Attribute[], inputs: readonly tfjs.Tensor[]): tfjs.Tensor;
  executeMultipleOutputs(
    operation: string,
    attributes: readonly Attribute[],
    inputs: readonly tfjs.Tensor[],
    outputs: number,
  ): tfjs.Tensor[];
  refCount(dataId: object): number;
  incRef(dataId: object): void;
  readonly isUsingGpuDevice: boolean;
}

/** Up to so many numbers one pass of JavaScript takes less time than some operations do for being called. */
const FEW = 32_768;

/** TensorFlow's own operations on float32 tensors. Nothing here is seen by the tape of gradients. */
export class NativeBackend {
  readonly tf: typeof tfjs;
  readonly #executor: Executor;
  readonly #types: TypeNumbers;
  readonly #float: readonly Attribute[];
  /** What has turned out not to run. */
  readonly #unavailable = new Set<string>();

  private constructor(tf: typeof tfjs, executor: Executor) {
    this.tf = tf;
    this.#executor = executor;
    this.#types = executor.binding;
    this.#float = [this.type('T')];
  }

  /** null on any other backend. */
  static of(tf: typeof tfjs): NativeBackend | null {
    const backend = tf.backend() as unknown as Partial<Executor>;
    const isNative =
      typeof backend.executeSingleOutput === 'function' &&
      typeof backend.executeMultipleOutputs === 'function' &&
      typeof backend.binding?.TF_ATTR_TYPE === 'number';
    return isNative ? new NativeBackend(tf, backend as Executor) : null;
  }

  /** An operation with attribute T = float32 and one output. */
  run(operation: string, inputs: readonly tfjs.Tensor[], attributes: readonly Attribute[] = []): tfjs.Tensor {
    return this.#executor.executeSingleOutput(operation, [...this.#float, ...attributes], inputs);
  }

  /** An operation with exactly these attributes and any number of outputs. */
  runRaw(operation: string, inputs: readonly tfjs.Tensor[], attributes: readonly Attribute[], outputs: number): tfjs.Tensor[] {
    return this.#executor.executeMultipleOutputs(operation, attributes, inputs, outputs);
  }

  /** An operation with attribute T = float32 that only changes something. */
  change(operation: string, inputs: readonly tfjs.Tensor[], attributes: readonly Attribute[] = []): void {
    this.#executor.executeMultipleOutputs(operation, [...this.#float, ...attributes], inputs, 0);
  }

  /** @param one by kernels that not every build of TensorFlow has: tried once. */
  firstThatRuns(name: string, one: () => tfjs.Tensor, other: () => tfjs.Tensor): tfjs.Tensor {
    if (!this.#unavailable.has(name)) {
      try {
        return one();
      } catch {
        this.#unavailable.add(name);
      }
    }
    return other();
  }

  get usesGpu(): boolean {
    return this.#executor.isUsingGpuDevice;
  }

  /** Reading it waits for nothing, and JavaScript is done with it before a few operations have been called. */
  isAtHand(tensor: tfjs.Tensor): boolean {
    return !this.usesGpu && tensor.size <= FEW;
  }

  /** Another tensor with the same data; both are to be disposed. */
  share(tensor: tfjs.Tensor): tfjs.Tensor {
    const { dataId, shape, dtype } = tensor;
    this.#executor.incRef(dataId);
    return this.tf.engine().makeTensorFromTensorInfo({ dataId, shape, dtype });
  }

  /** How many tensors share this data. */
  sharers(tensor: tfjs.Tensor): number {
    return this.#executor.refCount(tensor.dataId);
  }

  /** float32. */
  type(name: string): Attribute {
    return { name, type: this.#types.TF_ATTR_TYPE, value: this.#types.TF_FLOAT };
  }

  integerType(name: string): Attribute {
    return { name, type: this.#types.TF_ATTR_TYPE, value: this.#types.TF_INT32 };
  }

  text(name: string, value: string): Attribute {
    return { name, type: this.#types.TF_ATTR_STRING, value };
  }

  shape(name: string, value: readonly number[]): Attribute {
    return { name, type: this.#types.TF_ATTR_SHAPE, value };
  }

  flag(name: string, value: boolean): Attribute {
    return { name, type: this.#types.TF_ATTR_BOOL, value };
  }

  integers(name: string, value: number | readonly number[]): Attribute {
    return { name, type: this.#types.TF_ATTR_INT, value };
  }

  number(name: string, value: number): Attribute {
    return { name, type: this.#types.TF_ATTR_FLOAT, value };
  }
}
