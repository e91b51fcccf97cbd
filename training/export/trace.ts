import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';

/** The value of a kernel attribute. */
export type Attribute = number | boolean | string | null | undefined | readonly Attribute[] | { readonly [name: string]: Attribute };

export interface TracedTensor {
  readonly id: number;
  readonly shape: readonly number[];
  readonly dtype: tfjs.DataType;
}

/** One call of a backend kernel. */
export interface KernelCall {
  readonly kernel: string;
  /** The layer that called the kernel. */
  readonly layer: string;
  /** The inputs by name; absent inputs are omitted, and the names of a list are its positions. */
  readonly inputs: ReadonlyMap<string, TracedTensor>;
  readonly attributes: Readonly<Record<string, Attribute>>;
  readonly outputs: readonly TracedTensor[];
}

/** A tensor that the program created from its own numbers. */
export interface TracedConstant extends TracedTensor {
  readonly values: Float32Array | Int32Array | Uint8Array;
}

export interface Trace {
  readonly inputs: readonly TracedTensor[];
  readonly outputs: readonly TracedTensor[];
  readonly calls: readonly KernelCall[];
  /** By tensor id. Weights are not included. */
  readonly constants: ReadonlyMap<number, TracedConstant>;
}

type KernelInputs = Readonly<Record<string, tfjs.Tensor | undefined>> | readonly tfjs.Tensor[];

/** The part of TensorFlow.js's engine through which every operation passes. */
interface Engine {
  runKernel(kernel: string, inputs: KernelInputs, attributes?: Record<string, Attribute>): tfjs.Tensor | tfjs.Tensor[];
  readSync(dataId: object): unknown;
  read(dataId: object): Promise<unknown>;
}

interface TracedLayer {
  readonly name: string;
  readonly layers?: readonly TracedLayer[];
  call: (...input: unknown[]) => unknown;
}

/**
 * Records the kernels that a model's prediction runs, in order. Calls within a kernel are not recorded.
 * @throws TonyError MODEL_NOT_EXPORTABLE when the model reads values of tensors, because a trace cannot represent a decision by values.
 */
export function tracePrediction(
  tf: typeof tfjs,
  model: tfjs.LayersModel,
  inputs: readonly tfjs.Tensor[],
  weights: ReadonlySet<number>,
): Trace {
  const engine = tf.engine() as unknown as Engine;
  const { runKernel, readSync, read } = engine;
  const own = Object.getOwnPropertyDescriptors(engine);
  const calls: KernelCall[] = [];
  const constants = new Map<number, TracedConstant>();
  const known = new Set(inputs.map(({ id }) => id));
  const layers: string[] = [];
  let depth = 0;
  const here = () => layers.at(-1) ?? model.name;

  const remember = (tensor: tfjs.Tensor): TracedTensor => {
    if (!known.has(tensor.id) && !weights.has(tensor.id)) {
      known.add(tensor.id);
      // Read immediately, because the tensor may be disposed before the prediction ends.
      const values = Reflect.apply(readSync, engine, [tensor.dataId]) as TracedConstant['values'];
      constants.set(tensor.id, { ...described(tensor), values: values.slice() });
    }
    return described(tensor);
  };
  const looked = (): never => {
    throw new TonyError('MODEL_NOT_EXPORTABLE', `layer ${here()} decides by values what it computes: a graph without control flow cannot`);
  };

  engine.runKernel = (kernel, given, attributes = {}) => {
    const entries = Object.entries(given).filter((entry): entry is [string, tfjs.Tensor] => entry[1] instanceof tf.Tensor);
    const traced = depth === 0 ? new Map(entries.map(([name, tensor]) => [name, remember(tensor)])) : null;
    depth++;
    try {
      const result = Reflect.apply(runKernel, engine, [kernel, given, attributes]);
      if (traced !== null) {
        const outputs = [result].flat();
        calls.push({ kernel, layer: here(), inputs: traced, attributes, outputs: outputs.map(described) });
        for (const { id } of outputs) {
          known.add(id);
        }
      }
      return result;
    } finally {
      depth--;
    }
  };
  engine.readSync = (dataId) => (depth === 0 ? looked() : Reflect.apply(readSync, engine, [dataId]));
  engine.read = (dataId) => (depth === 0 ? looked() : Reflect.apply(read, engine, [dataId]));
  const restore = leafLayers(model as unknown as TracedLayer).map((layer) => {
    const { call } = layer;
    // Training may have replaced the method on the instance.
    const own = Object.getOwnPropertyDescriptor(layer, 'call');
    layer.call = (...input) => {
      layers.push(layer.name);
      try {
        return Reflect.apply(call, layer, input);
      } finally {
        layers.pop();
      }
    };
    return () => {
      // Exposes the method of the class again.
      Reflect.deleteProperty(layer, 'call');
      if (own !== undefined) {
        Object.defineProperty(layer, 'call', own);
      }
    };
  });
  try {
    const outputs = [model.apply([...inputs], { training: false })].flat() as tfjs.Tensor[];
    return { inputs: inputs.map(described), outputs: outputs.map(remember), calls, constants };
  } finally {
    for (const name of ['runKernel', 'readSync', 'read'] as const) {
      Reflect.deleteProperty(engine, name);
      if (name in own) {
        Object.defineProperty(engine, name, own[name] as PropertyDescriptor);
      }
    }
    for (const each of restore) {
      each();
    }
  }
}

function described({ id, shape, dtype }: tfjs.Tensor): TracedTensor {
  return { id, shape: [...shape], dtype };
}

function leafLayers({ layers }: TracedLayer): TracedLayer[] {
  return [...new Set((layers ?? []).flatMap((layer) => (layer.layers === undefined ? [layer] : leafLayers(layer))))];
}
