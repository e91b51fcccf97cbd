import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import type { StoredTensor } from '../checkpoint/checkpoint-format.ts';
import { setIterations } from '../optimizer/optimizer-members.ts';
import { OptimizerSlots } from '../optimizer/optimizer-slots.ts';
import type { CompiledModel, NamedWeight } from './compiled-model.ts';

/*
 * The state of a model and its optimizer, as tensors with these names:
 *
 *   model:<index>:<name>                     each weight, in the model's order
 *   optimizer:<property>                     an optimizer variable (for example Adam's accBeta1)
 *   optimizer:<property>:<index>:<name>      an optimizer slot for the trainable variable with that index (for example Adam's first moments)
 *
 * This file finds the state by inspecting the optimizer's properties. getWeights() is unsuitable, because some optimizers lack this method,
 * and because it omits Adam's powers of beta. If they were computed again, their bits would differ.
 */

export interface NamedVariable {
  readonly name: string;
  readonly variable: tfjs.Variable;
}

type Properties = Record<string, unknown>;

export function variablesOf(tf: typeof tfjs, model: CompiledModel): NamedVariable[] {
  const weights = model.weights.map(({ name, variable }, index) => ({ name: `model:${index}:${name}`, variable }));
  return [...weights, ...optimizerVariables(tf, model.optimizer, model.trainable)];
}

/**
 * Returns an optimizer's state variables, with their names in checkpoints.
 * @param variables the variables that the optimizer trains. A slot's name contains its variable's index in this list.
 */
export function optimizerVariables(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  prefix = 'optimizer',
): NamedVariable[] {
  const slots = OptimizerSlots.of(tf, optimizer);
  const own = Object.entries(optimizer as unknown as Properties).flatMap(([property, value]) =>
    value instanceof tf.Variable ? [{ name: `${prefix}:${property}`, variable: value }] : [],
  );
  const ofVariables = variables.flatMap((trained, index) =>
    Array.from(slots.slotsOf(trained), ([property, { originalName, variable }]) => {
      return { name: `${prefix}:${property}:${index}:${originalName}`, variable };
    }),
  );
  return [...own, ...ofVariables];
}

/** Copies a model's state and its optimizer's state out of the backend. Further training does not change the copy. */
export async function captureState(tf: typeof tfjs, model: CompiledModel): Promise<StoredTensor[]> {
  return await capture(tf, variablesOf(tf, model));
}

export async function capture(tf: typeof tfjs, variables: readonly NamedVariable[]): Promise<StoredTensor[]> {
  return await Promise.all(
    variables.map(async ({ name, variable }) => {
      const bytes = await copyOf(tf, variable);
      return { name, dtype: variable.dtype as StoredTensor['dtype'], shape: variable.shape, bytes };
    }),
  );
}

interface NativeData {
  /** The array passed to tf.tensor by the program, or null once an operation has used the tensor. */
  readonly values: unknown;
}

export async function copyOf(tf: typeof tfjs, tensor: tfjs.Tensor): Promise<Uint8Array> {
  // This check must come first, because reading the tensor may change its result.
  const isCopied = isCopiedByReading(tf, tensor);
  const values = (await tensor.data()) as Float32Array | Int32Array | Uint8Array;
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return isCopied ? bytes : bytes.slice();
}

/**
 * Returns true if `tensor.data()` returns a copy. Some backends return their own memory, or the array from which the tensor was created.
 */
function isCopiedByReading(tf: typeof tfjs, tensor: tfjs.Tensor): boolean {
  switch (tf.getBackend()) {
    case 'wasm':
      return true;
    case 'tensorflow': {
      const { tensorMap } = tf.backend() as unknown as { readonly tensorMap?: { get(dataId: object): NativeData | undefined } };
      return tensorMap?.get(tensor.dataId)?.values === null;
    }
    default:
      return false;
  }
}

/**
 * Restores a model and its optimizer.
 * @throws TonyError CHECKPOINT_MISFIT, without changing anything, if the tensors belong to another model or optimizer.
 */
export function restoreState(
  tf: typeof tfjs,
  model: CompiledModel,
  tensors: readonly StoredTensor[],
  iterations: number,
  where: string,
): void {
  const { optimizer, trainable } = model;
  checkOptimizer(optimizer, tensors, where);
  restoreWeights(tf, model.weights, tensors, where);
  restoreOptimizer(tf, optimizer, trainable, tensors);
  setIterations(optimizer, iterations);
}

/** @throws TonyError CHECKPOINT_MISFIT if the tensors contain state from a different kind of optimizer. */
export function checkOptimizer(optimizer: tfjs.Optimizer, tensors: readonly StoredTensor[], where: string, prefix = 'optimizer'): void {
  for (const { name } of tensors.filter((tensor) => tensor.name.startsWith(`${prefix}:`))) {
    const [, property = ''] = name.split(':');
    if (!(property in optimizer)) {
      throw misfit(where, `it was trained with another optimizer, which has the property ${property}`);
    }
  }
}

/** Restores the variables returned by `optimizerVariables`. Call `checkOptimizer` first. */
export function restoreOptimizer(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  tensors: readonly StoredTensor[],
  prefix = 'optimizer',
): void {
  const slots = OptimizerSlots.of(tf, optimizer);
  slots.arrange(variables);
  tf.tidy(() => {
    for (const tensor of tensors.filter(({ name }) => name.startsWith(`${prefix}:`))) {
      const [, property = '', index, ...name] = tensor.name.split(':');
      const value = tensorOf(tf, tensor);
      const variable = variables[Number(index)];
      if (index === undefined) {
        ((optimizer as unknown as Properties)[property] as tfjs.Variable).assign(value);
      } else if (variable !== undefined) {
        slots.restore(variable, property, name.join(':'), value);
      }
    }
  });
}

/**
 * Restores only the model weights from a checkpoint's tensors.
 * @param model the model's name, if a loop's checkpoint contains several models.
 * @throws TonyError CHECKPOINT_MISFIT, without changing anything, if the tensors belong to another model.
 */
export function restoreWeights(
  tf: typeof tfjs,
  weights: readonly NamedWeight[],
  tensors: readonly StoredTensor[],
  where: string,
  model?: string,
): void {
  const stored = weightsAmong(tensors, model === undefined ? 'model' : `model/${model}`);
  if (stored.size === 0 && weights.length > 0) {
    const names = [...new Set(tensors.flatMap(({ name }) => /^model\/([^:]+):/.exec(name)?.[1] ?? []))];
    throw misfit(where, names.length === 0 ? 'it contains no model' : `it contains several models: name one of ${names.join(', ')}`);
  }
  if (stored.size !== weights.length) {
    throw misfit(where, `it has ${stored.size} weights instead of ${weights.length}`);
  }
  const pairs = weights.map(({ name, variable }, index) => {
    const tensor = stored.get(index);
    if (tensor === undefined) {
      throw misfit(where, `it has no weight ${name}`);
    }
    if (typeOf(tensor) !== typeOf(variable)) {
      throw misfit(where, `weight ${name} is ${typeOf(tensor)}, not ${typeOf(variable)}`);
    }
    return { variable, tensor };
  });
  assignTensors(tf, pairs);
}

/** Returns a checkpoint's weights by their index in the model. */
export function weightsAmong(tensors: readonly StoredTensor[], prefix = 'model'): Map<number, StoredTensor> {
  return new Map(
    tensors.flatMap((tensor) => {
      const [kind, index] = tensor.name.split(':', 2);
      return kind === prefix && index !== undefined ? [[Number(index), tensor] as const] : [];
    }),
  );
}

/** Describes a tensor's data type and shape, for example `float32 [2,3]`. */
export function typeOf({ dtype, shape }: { readonly dtype: string; readonly shape: readonly number[] }): string {
  return `${dtype} [${shape}]`;
}

export function misfit(where: string, what: string): TonyError {
  return new TonyError('CHECKPOINT_MISFIT', `${where} does not fit this model: ${what}`);
}

/** Assigns stored tensors to variables with the same types. */
export function assignTensors(
  tf: typeof tfjs,
  pairs: readonly { readonly variable: tfjs.Variable; readonly tensor: StoredTensor }[],
): void {
  tf.tidy(() => {
    for (const { variable, tensor } of pairs) {
      variable.assign(tensorOf(tf, tensor));
    }
  });
}

export function tensorOf(tf: typeof tfjs, stored: StoredTensor): tfjs.Tensor {
  // Copies the bytes to aligned memory. Buffer.slice() would return a view.
  const { buffer } = new Uint8Array(stored.bytes);
  const values =
    stored.dtype === 'float32' ? new Float32Array(buffer) : stored.dtype === 'int32' ? new Int32Array(buffer) : new Uint8Array(buffer);
  return tf.tensor(values, [...stored.shape], stored.dtype);
}
