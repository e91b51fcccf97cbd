import { createHash } from 'node:crypto';
import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { disposeElement } from '../data/reading/dispose.ts';
import { collate } from '../data/transforms/collate.ts';
import { toTensors } from '../data/transforms/tensors.ts';
import { SavedModel } from '../export/saved-model.ts';
import { checkInputShapes, type FedModel, inputsOf } from '../model/batch-shapes.ts';
import { checkBatch, statefulBatches } from '../model/stateful-batches.ts';

/**
 * A model's prediction for one element. Each output is a flat array of numbers. If the outputs are named, the arrays are keyed by output
 * name.
 */
export type Prediction = Values | readonly Values[] | Readonly<Record<string, Values>>;
export type Values = Float32Array | Int32Array | Uint8Array;

export type InferenceModel = tfjs.LayersModel | tfjs.GraphModel | SavedModel;

/** Returns true if `value` is a model, or false if it is a function. */
export function isModel(value: unknown): value is InferenceModel {
  return typeof value === 'object' && value !== null && 'predict' in value && 'inputs' in value;
}

/**
 * Runs the model on a batch of elements.
 * @param inputs one input per element: a number, an array of numbers, `{ values, shape }`, or an object of these keyed by the model's
 *   input names.
 * @throws TonyError DATA_INVALID if the inputs do not match the model.
 */
export async function predictBatch(tf: typeof tfjs, model: InferenceModel, inputs: readonly unknown[]): Promise<Prediction[]> {
  checkBatch(statefulBatches(model), inputs.length);
  const tensors = tf.tidy(() => inputTensors(tf, model, toTensors(tf, collate(inputs, null) as unknown)));
  try {
    const output = await outputOf(model, tensors, inputs.length);
    try {
      return await rowsOf(output, inputs.length);
    } finally {
      disposeElement(output);
    }
  } finally {
    disposeElement(tensors);
  }
}

/**
 * Graphs with control flow, which must run asynchronously. All other graphs run synchronously, because TensorFlow.js logs a warning each
 * time a graph without control flow runs asynchronously.
 */
const asynchronous = new WeakSet<InferenceModel>();

async function outputOf(model: InferenceModel, tensors: Inputs, count: number): Promise<Inputs> {
  if (model instanceof SavedModel) {
    return model.predict(tensors);
  }
  if (!('executeAsync' in model)) {
    const inputs = [tensors as tfjs.Tensor | tfjs.Tensor[]].flat();
    checkInputShapes(
      inputsOf(((model as { readonly model?: unknown }).model ?? model) as FedModel),
      inputs.map(({ shape }) => ({ shape: shape.length === 1 ? [...shape, 1] : shape })),
    );
    return model.predict(inputs.length === 1 ? (inputs[0] as tfjs.Tensor) : inputs, { batchSize: count });
  }
  if (!asynchronous.has(model)) {
    try {
      return model.predict(tensors);
    } catch (error) {
      if (!/executeAsync/.test(messageOf(error))) {
        throw error;
      }
      asynchronous.add(model);
    }
  }
  return await model.predictAsync(tensors);
}

type Inputs = tfjs.Tensor | tfjs.Tensor[] | tfjs.NamedTensorMap;

function inputTensors(tf: typeof tfjs, model: InferenceModel, given: tfjs.TensorContainer): Inputs {
  const expected = model.inputs as readonly { readonly name: string; readonly shape?: readonly (number | null)[] | undefined }[];
  const fitting = (tensor: unknown, at: number) => reshaped(tensor as tfjs.Tensor, expected[at]?.shape);
  if (given instanceof tf.Tensor) {
    return fitting(given, 0);
  }
  if (Array.isArray(given)) {
    return given.map(fitting);
  }
  if (typeof given !== 'object' || given === null) {
    throw new TonyError('DATA_INVALID', "the dataset's elements are not valid inputs of a model");
  }
  const named = given as Readonly<Record<string, tfjs.Tensor>>;
  const names = Object.keys(named);
  const [first] = names;
  if (names.length === 1 && expected.length === 1 && first !== undefined) {
    return fitting(named[first], 0);
  }
  // Input `x` is named `x:0` in graph models and `x_input` in layers models.
  const find = (name: string) => names.find((each) => each === name || name === `${each}:0` || name === `${each}_input`);
  const found = expected.map(({ name }) => find(name));
  const lacking = expected.find((_, at) => found[at] === undefined);
  if (lacking !== undefined || names.length !== expected.length) {
    const wanted = expected.map(({ name }) => name).join(', ');
    throw new TonyError('DATA_INVALID', `the elements have the fields ${names.join(', ')}, but the model has the inputs ${wanted}`, {
      hint: 'Use `input` to select the part of an element that the model receives.',
    });
  }
  const tensors = found.map((name, at) => fitting(named[name as string], at));
  return 'executeAsync' in model ? Object.fromEntries(tensors.map((tensor, at) => [expected[at]?.name ?? '', tensor])) : tensors;
}

function reshaped(tensor: tfjs.Tensor, shape: readonly (number | null)[] | undefined): tfjs.Tensor {
  if (shape === undefined || shape.length < 2 || shape.slice(1).some((size) => size === null || size < 0)) {
    return tensor;
  }
  const wanted = shape.slice(1) as number[];
  const size = (each: readonly number[]) => each.reduce((product, length) => product * length, 1);
  const isSame = tensor.shape.length === shape.length;
  return isSame || size(tensor.shape.slice(1)) !== size(wanted) ? tensor : tensor.reshape([tensor.shape[0] ?? 0, ...wanted]);
}

async function rowsOf(output: tfjs.Tensor | tfjs.Tensor[] | tfjs.NamedTensorMap, count: number): Promise<Prediction[]> {
  if (Array.isArray(output)) {
    const all = await Promise.all(output.map((tensor) => rowsOfTensor(tensor, count)));
    return Array.from({ length: count }, (_, row) => all.map((rows) => rows[row] as Values));
  }
  if ('dataSync' in output && typeof output.dataSync === 'function') {
    return rowsOfTensor(output as tfjs.Tensor, count);
  }
  const named = Object.entries(output as tfjs.NamedTensorMap);
  const all = await Promise.all(named.map(async ([name, tensor]) => [name, await rowsOfTensor(tensor, count)] as const));
  return Array.from({ length: count }, (_, row) => Object.fromEntries(all.map(([name, rows]) => [name, rows[row] as Values])));
}

async function rowsOfTensor(tensor: tfjs.Tensor, count: number): Promise<Values[]> {
  if (tensor.shape[0] !== count) {
    throw new TonyError(
      'DATA_INVALID',
      `the model returns [${tensor.shape}] for ${count} elements; the first dimension must be the number of elements`,
    );
  }
  const values = (await tensor.data()) as Values;
  const width = values.length / count;
  // Copies each row, because a view would keep the whole batch in memory.
  return Array.from({ length: count }, (_, row) => values.slice(row * width, (row + 1) * width));
}

/** Computes a hash that identifies a model and its weights. */
export async function modelFingerprint(model: InferenceModel): Promise<string> {
  if (model instanceof SavedModel) {
    return model.fingerprint;
  }
  const hash = createHash('sha256');
  const add = async (name: string, tensor: tfjs.Tensor) => {
    const values = await tensor.data();
    hash.update(`${name} ${tensor.dtype} [${tensor.shape}]\n`);
    hash.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  };
  if ('executeAsync' in model) {
    const { artifacts } = model as unknown as { readonly artifacts?: { readonly modelTopology?: unknown } };
    hash.update(JSON.stringify(artifacts?.modelTopology ?? null));
    for (const [name, tensors] of Object.entries(model.weights).sort(([a], [b]) => (a < b ? -1 : 1))) {
      for (const tensor of tensors) {
        await add(name, tensor);
      }
    }
  } else {
    hash.update(JSON.stringify(model.toJSON(null, false)));
    for (const { originalName, shape } of model.weights) {
      hash.update(`${originalName} [${shape}]\n`);
    }
    for (const tensor of model.getWeights()) {
      await add('', tensor);
    }
  }
  return hash.digest('hex').slice(0, 32);
}
