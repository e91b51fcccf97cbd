import type * as tfjs from '@tensorflow/tfjs';
import { replaceMethods } from '../../../platform/replace-methods.ts';

/*
 * tfjs-node and tfjs-node-gpu can run any operation of TensorFlow's C library by name, with the attributes and inputs that TensorFlow's
 * operation registry defines. The interface shared by all backends does not include these methods.
 */

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

/** Notices what the backend does during a computation. */
export interface BackendObserver {
  onOperation(
    operation: string,
    attributes: readonly KernelAttribute[],
    inputs: readonly tfjs.Tensor[],
    outputs: readonly tfjs.Tensor[],
  ): void;
  /** Called before a program reads the values of a tensor. */
  onRead(dataId: object): void;
}

export interface KernelAttribute {
  readonly name: string;
  readonly type: number;
  readonly value: number | boolean | string | readonly number[];
}

interface Executor {
  readonly binding: TypeNumbers;
  executeSingleOutput(operation: string, attributes: readonly KernelAttribute[], inputs: readonly tfjs.Tensor[]): tfjs.Tensor;
  executeMultipleOutputs(
    operation: string,
    attributes: readonly KernelAttribute[],
    inputs: readonly tfjs.Tensor[],
    outputs: number,
  ): tfjs.Tensor[];
  readSync(dataId: object): Float32Array | Int32Array | Uint8Array;
  loadSavedModelMetaGraph(folder: string, tags: string): number;
  runSavedModel(
    id: number,
    inputs: readonly tfjs.Tensor[],
    infos: readonly { readonly name: string }[],
    outputs: readonly string[],
  ): tfjs.Tensor[];
  deleteSavedModel(id: number): void;
  refCount(dataId: object): number;
  incRef(dataId: object): void;
  readonly isUsingGpuDevice: boolean;
}

/** Methods of TensorFlow.js's engine. Every read of a tensor's values by a program calls one of them. */
interface Reader {
  readSync(dataId: object): unknown;
  read(dataId: object): Promise<unknown>;
}

/** Maximum number of values in a tensor for which one JavaScript pass is faster than several TensorFlow operations. */
const MAX_JAVASCRIPT_NUMBERS = 32_768;

/** Runs TensorFlow operations on float32 tensors. TensorFlow.js's gradient tape does not record these operations. */
export class NativeBackend {
  readonly tf: typeof tfjs;
  readonly #executor: Executor;
  readonly #types: TypeNumbers;
  readonly #float: readonly KernelAttribute[];
  /** Names for which `runWithFallback` uses the fallback. */
  readonly #unavailable = new Set<string>();
  #isObserved = false;

  private constructor(tf: typeof tfjs, executor: Executor) {
    this.tf = tf;
    this.#executor = executor;
    this.#types = executor.binding;
    this.#float = [this.type('T')];
  }

  /** Returns null if the current backend is not native. */
  static of(tf: typeof tfjs): NativeBackend | null {
    const backend = tf.backend() as unknown as Partial<Executor>;
    const isNative =
      typeof backend.executeSingleOutput === 'function' &&
      typeof backend.executeMultipleOutputs === 'function' &&
      typeof backend.binding?.TF_ATTR_TYPE === 'number';
    return isNative ? new NativeBackend(tf, backend as Executor) : null;
  }

  /** Runs an operation that has one output, and whose T attribute is float32. */
  run(operation: string, inputs: readonly tfjs.Tensor[], attributes: readonly KernelAttribute[] = []): tfjs.Tensor {
    return this.#executor.executeSingleOutput(operation, [...this.#float, ...attributes], inputs);
  }

  /** Runs an operation with exactly the given attributes and any number of outputs. */
  runRaw(operation: string, inputs: readonly tfjs.Tensor[], attributes: readonly KernelAttribute[], outputs: number): tfjs.Tensor[] {
    return this.#executor.executeMultipleOutputs(operation, attributes, inputs, outputs);
  }

  /** Runs an operation that changes an input in place and has no outputs. Its T attribute is float32. */
  change(operation: string, inputs: readonly tfjs.Tensor[], attributes: readonly KernelAttribute[] = []): void {
    this.#executor.executeMultipleOutputs(operation, [...this.#float, ...attributes], inputs, 0);
  }

  /**
   * Runs `preferred`, whose kernels some TensorFlow builds lack. If `preferred` fails, this call and all later calls with the same `name`
   * run `fallback` instead.
   */
  runWithFallback(name: string, preferred: () => tfjs.Tensor, fallback: () => tfjs.Tensor): tfjs.Tensor {
    if (!this.#unavailable.has(name)) {
      try {
        return preferred();
      } catch {
        this.#unavailable.add(name);
      }
    }
    return fallback();
  }

  get usesGpu(): boolean {
    return this.#executor.isUsingGpuDevice;
  }

  /**
   * Returns true if the tensor is small and not on a GPU. For such tensors, one JavaScript pass is faster than several operations. An
   * observer sees only operations.
   */
  isFasterInJavaScript(tensor: tfjs.Tensor): boolean {
    return !this.usesGpu && !this.#isObserved && tensor.size <= MAX_JAVASCRIPT_NUMBERS;
  }

  /** Returns true while an observer notices the operations. */
  get isObserved(): boolean {
    return this.#isObserved;
  }

  /** Runs a synchronous computation, and reports its operations and reads to the observer. */
  observe<Result>(observer: BackendObserver, compute: () => Result): Result {
    const executor = this.#executor;
    const engine = this.tf.engine() as unknown as Reader;
    const { executeSingleOutput, executeMultipleOutputs } = executor;
    const { readSync, read } = engine;
    const restoreExecutor = replaceMethods(executor, {
      executeSingleOutput: (operation, attributes, inputs) => {
        const output = Reflect.apply(executeSingleOutput, executor, [operation, attributes, inputs]);
        observer.onOperation(operation, attributes, inputs, [output]);
        return output;
      },
      executeMultipleOutputs: (operation, attributes, inputs, count) => {
        const outputs = Reflect.apply(executeMultipleOutputs, executor, [operation, attributes, inputs, count]);
        observer.onOperation(operation, attributes, inputs, outputs);
        return outputs;
      },
    });
    // Some of the backend's kernels read indices to check them. Only the reads of programs go through the engine.
    const restoreEngine = replaceMethods(engine, {
      readSync: (dataId) => {
        observer.onRead(dataId);
        return Reflect.apply(readSync, engine, [dataId]);
      },
      read: (dataId) => {
        observer.onRead(dataId);
        return Reflect.apply(read, engine, [dataId]);
      },
    });
    this.#isObserved = true;
    try {
      return compute();
    } finally {
      this.#isObserved = false;
      restoreEngine();
      restoreExecutor();
    }
  }

  /** Returns the values of a tensor without telling an observer. */
  valuesOf(dataId: object): Float32Array | Int32Array | Uint8Array {
    return this.#executor.readSync(dataId);
  }

  /** Returns the name of an attribute's type. */
  kindOf(type: number): 'type' | 'string' | 'shape' | 'bool' | 'int' | 'float' | null {
    const types = this.#types;
    const kinds = [
      [types.TF_ATTR_TYPE, 'type'],
      [types.TF_ATTR_STRING, 'string'],
      [types.TF_ATTR_SHAPE, 'shape'],
      [types.TF_ATTR_BOOL, 'bool'],
      [types.TF_ATTR_INT, 'int'],
      [types.TF_ATTR_FLOAT, 'float'],
    ] as const;
    return kinds.find(([each]) => each === type)?.[1] ?? null;
  }

  /** Loads the SavedModel in a local folder, and returns its number. */
  loadGraph(folder: string): number {
    return this.#executor.loadSavedModelMetaGraph(folder, 'serve');
  }

  /** @param names the graph's names of the inputs, such as `input:0` */
  runGraph(id: number, inputs: readonly tfjs.Tensor[], names: readonly string[], outputs: readonly string[]): tfjs.Tensor[] {
    const infos = names.map((name) => ({ name }));
    return this.#executor.runSavedModel(id, inputs, infos, outputs);
  }

  deleteGraph(id: number): void {
    this.#executor.deleteSavedModel(id);
  }

  /** Returns a second tensor with the same data. The caller must dispose both tensors. */
  share(tensor: tfjs.Tensor): tfjs.Tensor {
    const { dataId, shape, dtype } = tensor;
    this.#executor.incRef(dataId);
    return this.tf.engine().makeTensorFromTensorInfo({ dataId, shape, dtype });
  }

  sharers(tensor: tfjs.Tensor): number {
    return this.#executor.refCount(tensor.dataId);
  }

  type(name: string): KernelAttribute {
    return { name, type: this.#types.TF_ATTR_TYPE, value: this.#types.TF_FLOAT };
  }

  integerType(name: string): KernelAttribute {
    return { name, type: this.#types.TF_ATTR_TYPE, value: this.#types.TF_INT32 };
  }

  text(name: string, value: string): KernelAttribute {
    return { name, type: this.#types.TF_ATTR_STRING, value };
  }

  shape(name: string, value: readonly number[]): KernelAttribute {
    return { name, type: this.#types.TF_ATTR_SHAPE, value };
  }

  flag(name: string, value: boolean): KernelAttribute {
    return { name, type: this.#types.TF_ATTR_BOOL, value };
  }

  integers(name: string, value: number | readonly number[]): KernelAttribute {
    return { name, type: this.#types.TF_ATTR_INT, value };
  }

  number(name: string, value: number): KernelAttribute {
    return { name, type: this.#types.TF_ATTR_FLOAT, value };
  }
}

export function sameShape(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((size, index) => size === other[index]);
}
