import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../conf/errors.ts';
import type { StoredTensor } from './checkpoint-format.ts';
import type { CompiledModel, NamedWeight } from './compiled-model.ts';

/*
 * Everything in a model and its optimizer that training changes, as named bytes. Names:
 *
 *   model:<index>:<name>                     each weight, in the model's order
 *   optimizer:<property>                     a variable of the optimizer (Adam's accBeta1)
 *   optimizer:<property>:<index>:<name>      a slot of the optimizer for the trainable variable of that index (Adam's first moments)
 *
 * Optimizers are read by the shape of their properties rather than by getWeights(): that leaves out some of what they hold (Adam's powers
 * of beta are recomputed, with other bits), and not all of them have it.
 */

interface OptimizerSlot {
  readonly originalName: string;
  readonly variable: tfjs.Variable;
}

interface NamedVariable {
  readonly name: string;
  readonly variable: tfjs.Variable;
}

type Properties = Record<string, unknown>;

export function variablesOf(tf: typeof tfjs, model: CompiledModel): NamedVariable[] {
  const weights = model.weights.map(({ name, variable }, index) => ({ name: `model:${index}:${name}`, variable }));
  return [...weights, ...optimizerVariables(tf, model.optimizer)];
}

/** What the optimizer keeps, under its names in checkpoints. */
export function optimizerVariables(tf: typeof tfjs, optimizer: tfjs.Optimizer): NamedVariable[] {
  const found: NamedVariable[] = [];
  for (const [property, value] of Object.entries(optimizer as unknown as Properties)) {
    if (value instanceof tf.Variable) {
      found.push({ name: `optimizer:${property}`, variable: value });
    } else if (Array.isArray(value)) {
      value.forEach((slot: OptimizerSlot | null | undefined, index) => {
        if (slot?.variable instanceof tf.Variable) {
          found.push({ name: `optimizer:${property}:${index}:${slot.originalName}`, variable: slot.variable });
        }
      });
    }
  }
  return found;
}

/** Copies all of it out of the backend, once: what training does next does not change it. */
export async function captureState(tf: typeof tfjs, model: CompiledModel): Promise<StoredTensor[]> {
  return await Promise.all(
    variablesOf(tf, model).map(async ({ name, variable }) => {
      const bytes = await copyOf(tf, variable);
      return { name, dtype: variable.dtype as StoredTensor['dtype'], shape: variable.shape, bytes };
    }),
  );
}

interface NativeData {
  /** What was handed to tf.tensor, as long as no operation has needed it. */
  readonly values: unknown;
}

/** The values of a tensor, in memory that nobody else has. */
export async function copyOf(tf: typeof tfjs, tensor: tfjs.Tensor): Promise<Uint8Array> {
  // To be asked before they are read.
  const isCopied = isCopiedByReading(tf, tensor);
  const values = (await tensor.data()) as Float32Array | Int32Array | Uint8Array;
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return isCopied ? bytes : bytes.slice();
}

/** The other backends hand out their own memory, or memory that somebody has handed to them. */
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

/** @throws TonyError CHECKPOINT_MISFIT when it is of another model or optimizer; nothing is changed then. */
export function restoreState(
  tf: typeof tfjs,
  model: CompiledModel,
  tensors: readonly StoredTensor[],
  iterations: number,
  where: string,
): void {
  const optimizer = model.optimizer as unknown as Properties;
  const slots = tensors.filter(({ name }) => name.startsWith('optimizer:'));
  for (const slot of slots) {
    const [, property = ''] = slot.name.split(':');
    if (!(property in optimizer)) {
      throw misfit(where, `it was trained by another optimizer, with ${property}`);
    }
  }
  restoreWeights(tf, model.weights, tensors, where);
  tf.tidy(() => {
    for (const slot of slots) {
      restoreSlot(tf, optimizer, slot);
    }
  });
  optimizer.iterations_ = iterations;
}

/** The weights alone, of whatever else is among `tensors`. */
export function restoreWeights(tf: typeof tfjs, weights: readonly NamedWeight[], tensors: readonly StoredTensor[], where: string): void {
  const stored = weightsAmong(tensors);
  if (stored.size !== weights.length) {
    throw misfit(where, `it has ${stored.size} weights instead of ${weights.length}`);
  }
  const pairs = weights.map((weight, index) => ({ ...weight, tensor: stored.get(index) }));
  const fitting: { readonly variable: tfjs.Variable; readonly tensor: StoredTensor }[] = [];
  for (const { name, variable, tensor } of pairs) {
    if (tensor === undefined) {
      throw misfit(where, `it has no weight ${name}`);
    }
    if (!sameShape(tensor.shape, variable.shape) || tensor.dtype !== variable.dtype) {
      throw misfit(where, `weight ${name} is ${tensor.dtype} [${tensor.shape}] there and ${variable.dtype} [${variable.shape}] here`);
    }
    fitting.push({ variable, tensor });
  }
  tf.tidy(() => {
    for (const { variable, tensor } of fitting) {
      variable.assign(tensorOf(tf, tensor));
    }
  });
}

/** By their place in the model: in a checkpoint they stand as those who have written it had them. */
export function weightsAmong(tensors: readonly StoredTensor[]): Map<number, StoredTensor> {
  return new Map(
    tensors.flatMap((tensor) => {
      const [, index] = /^model:(\d+):/.exec(tensor.name) ?? [];
      return index === undefined ? [] : [[Number(index), tensor] as const];
    }),
  );
}

function misfit(where: string, what: string): TonyError {
  return new TonyError('CHECKPOINT_MISFIT', `${where} does not fit this model: ${what}`);
}

function restoreSlot(tf: typeof tfjs, optimizer: Properties, stored: StoredTensor): void {
  const [, property = '', index, ...name] = stored.name.split(':');
  const value = tensorOf(tf, stored);
  const there = optimizer[property];
  if (index === undefined) {
    (there as tfjs.Variable).assign(value);
    return;
  }
  const slots = there as (OptimizerSlot | undefined)[];
  const slot = slots[Number(index)];
  if (slot === undefined) {
    slots[Number(index)] = { originalName: name.join(':'), variable: value.variable(false) };
  } else {
    slot.variable.assign(value);
  }
}

/** A new tensor of its values. */
export function tensorOf(tf: typeof tfjs, stored: StoredTensor): tfjs.Tensor {
  // A copy, aligned, and of its own: a Buffer's slice() would not be one.
  const { buffer } = new Uint8Array(stored.bytes);
  const values =
    stored.dtype === 'float32' ? new Float32Array(buffer) : stored.dtype === 'int32' ? new Int32Array(buffer) : new Uint8Array(buffer);
  return tf.tensor(values, [...stored.shape], stored.dtype);
}

function sameShape(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((size, index) => size === other[index]);
}
