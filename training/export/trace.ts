import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import { replaceMethods } from '../../platform/replace-methods.ts';

export type TracedAttribute =
  | number
  | boolean
  | string
  | null
  | undefined
  | readonly TracedAttribute[]
  | { readonly [name: string]: TracedAttribute };

export interface TracedTensor {
  readonly id: number;
  readonly shape: readonly number[];
  readonly dtype: tfjs.DataType;
}

export interface KernelCall {
  readonly kernel: string;
  readonly layer: string;
  /** Inputs by name, excluding optional inputs that are missing. If the inputs are a list, each input's name is its index. */
  readonly inputs: ReadonlyMap<string, TracedTensor>;
  readonly attributes: Readonly<Record<string, TracedAttribute>>;
  readonly outputs: readonly TracedTensor[];
}

/** A tensor that the model itself creates during a prediction. */
export interface TracedConstant extends TracedTensor {
  readonly values: Float32Array | Int32Array | Uint8Array;
}

export interface Trace {
  readonly inputs: readonly TracedTensor[];
  readonly outputs: readonly TracedTensor[];
  readonly calls: readonly KernelCall[];
  /** Constants by tensor ID, excluding the model's weights. */
  readonly constants: ReadonlyMap<number, TracedConstant>;
}

type KernelInputs = Readonly<Record<string, tfjs.Tensor | undefined>> | readonly tfjs.Tensor[];

/** TensorFlow.js engine methods. Every operation and every read of a tensor's values calls one of them. */
interface Engine {
  runKernel(kernel: string, inputs: KernelInputs, attributes?: Record<string, TracedAttribute>): tfjs.Tensor | tfjs.Tensor[];
  readSync(dataId: object): unknown;
  read(dataId: object): Promise<unknown>;
}

interface TracedLayer {
  readonly name: string;
  readonly layers?: readonly TracedLayer[];
  call: (...input: unknown[]) => unknown;
}

/**
 * Records the kernel calls of a model's prediction in order. Calls that a kernel itself makes are not recorded.
 * @param weights the IDs of the model's variables.
 * @throws TonyError MODEL_UNSUPPORTED if the model reads a tensor's values. A trace cannot represent decisions that depend on values.
 */
export function tracePrediction(
  tf: typeof tfjs,
  model: tfjs.LayersModel,
  inputs: readonly tfjs.Tensor[],
  weights: ReadonlySet<number>,
): Trace {
  const recorder = new KernelRecorder(tf, model.name, inputs, weights);
  const detachEngine = recorder.attachToEngine();
  const detachLayers = leafLayers(model as unknown as TracedLayer).map((layer) => recorder.attachToLayer(layer));
  try {
    const outputs = [model.apply([...inputs], { training: false })].flat() as tfjs.Tensor[];
    const { calls, constants } = recorder;
    return { inputs: inputs.map(described), outputs: outputs.map((output) => recorder.remember(output)), calls, constants };
  } finally {
    for (const detach of [detachEngine, ...detachLayers]) {
      detach();
    }
  }
}

class KernelRecorder {
  readonly calls: KernelCall[] = [];
  readonly constants = new Map<number, TracedConstant>();
  readonly #tf: typeof tfjs;
  readonly #engine: Engine;
  readonly #readSync: Engine['readSync'];
  readonly #model: string;
  readonly #weights: ReadonlySet<number>;
  /** IDs of the model's inputs, of the constants, and of the outputs of recorded calls. */
  readonly #known: Set<number>;
  /** Names of the layers whose `call` is running. The innermost layer is the last one. */
  readonly #layers: string[] = [];
  #depth = 0;

  constructor(tf: typeof tfjs, model: string, inputs: readonly tfjs.Tensor[], weights: ReadonlySet<number>) {
    this.#tf = tf;
    this.#engine = tf.engine() as unknown as Engine;
    this.#readSync = this.#engine.readSync;
    this.#model = model;
    this.#weights = weights;
    this.#known = new Set(inputs.map(({ id }) => id));
  }

  /** Describes a tensor. If the tensor is neither known nor a weight, records it as a constant. */
  remember(tensor: tfjs.Tensor): TracedTensor {
    if (!this.#known.has(tensor.id) && !this.#weights.has(tensor.id)) {
      this.#known.add(tensor.id);
      // The values must be read now, because the model may dispose the tensor before the prediction ends.
      const values = Reflect.apply(this.#readSync, this.#engine, [tensor.dataId]) as TracedConstant['values'];
      this.constants.set(tensor.id, { ...described(tensor), values: values.slice() });
    }
    return described(tensor);
  }

  /** Intercepts the engine's calls. Returns a function that restores the engine. */
  attachToEngine(): () => void {
    const engine = this.#engine;
    const { runKernel, readSync, read } = engine;
    return replaceMethods(engine, {
      runKernel: (kernel, given, attributes = {}) =>
        this.#run(kernel, given, attributes, () => Reflect.apply(runKernel, engine, [kernel, given, attributes])),
      readSync: (dataId) => (this.#depth === 0 ? this.#refuseRead() : Reflect.apply(readSync, engine, [dataId])),
      read: (dataId) => (this.#depth === 0 ? this.#refuseRead() : Reflect.apply(read, engine, [dataId])),
    });
  }

  #run<Result extends tfjs.Tensor | tfjs.Tensor[]>(
    kernel: string,
    given: KernelInputs,
    attributes: Record<string, TracedAttribute>,
    run: () => Result,
  ): Result {
    const entries = Object.entries(given).filter((entry): entry is [string, tfjs.Tensor] => entry[1] instanceof this.#tf.Tensor);
    const inputs = this.#depth === 0 ? new Map(entries.map(([name, tensor]) => [name, this.remember(tensor)])) : null;
    this.#depth++;
    try {
      const result = run();
      if (inputs !== null) {
        const outputs = [result].flat() as tfjs.Tensor[];
        this.calls.push({ kernel, layer: this.#layer, inputs, attributes, outputs: outputs.map(described) });
        for (const { id } of outputs) {
          this.#known.add(id);
        }
      }
      return result;
    } finally {
      this.#depth--;
    }
  }

  #refuseRead(): never {
    throw new TonyError(
      'MODEL_UNSUPPORTED',
      `layer ${this.#layer} branches on values, which is impossible in a graph without control flow`,
    );
  }

  get #layer(): string {
    return this.#layers.at(-1) ?? this.#model;
  }

  /** Keeps track of when the layer's `call` runs. Returns a function that restores the layer. */
  attachToLayer(layer: TracedLayer): () => void {
    const { call } = layer;
    // Synchronised batch normalisation may have replaced this layer's `call`.
    return replaceMethods(layer, {
      call: (...input) => {
        this.#layers.push(layer.name);
        try {
          return Reflect.apply(call, layer, input);
        } finally {
          this.#layers.pop();
        }
      },
    });
  }
}

function described({ id, shape, dtype }: tfjs.Tensor): TracedTensor {
  return { id, shape: [...shape], dtype };
}

function leafLayers({ layers }: TracedLayer): TracedLayer[] {
  return [...new Set((layers ?? []).flatMap((layer) => (layer.layers === undefined ? [layer] : leafLayers(layer))))];
}
