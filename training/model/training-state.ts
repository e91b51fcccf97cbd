import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../contract/checkpoint/checkpoint-format.ts';
import { setIterations } from '../optimizer/optimizer-members.ts';
import type { CompiledModel, NamedWeight } from './compiled-model.ts';
import { captureOptimizer, checkOptimizer, restoreOptimizer, type StateSource } from './optimizer-state.ts';
import { assignTensors, capture, misfit, type NamedVariable, typeOf } from './stored-tensors.ts';

/*
 * The state of a model and its optimizer, as tensors with these names:
 *
 *   model:<index>:<name>                     each weight, in the model's order
 *   optimizer:..., members:...               the optimizer's state, as in optimizer-state.ts
 */

export function variablesOf(model: CompiledModel): NamedVariable[] {
  return model.weights.map(({ name, variable }, index) => ({ name: `model:${index}:${name}`, variable }));
}

/** Copies a model's state and its optimizer's state out of the backend. Further training does not change the copy. */
export async function captureState(tf: typeof tfjs, model: CompiledModel): Promise<StoredTensor[]> {
  const [weights, optimizer] = await Promise.all([capture(tf, variablesOf(model)), captureOptimizer(tf, model.optimizer, model.trainable)]);
  return [...weights, ...optimizer];
}

/**
 * Restores a model and its optimizer.
 * @throws TonyError CHECKPOINT_MISMATCH, without changing anything, if the tensors belong to another model or optimizer.
 */
export async function restoreState(
  tf: typeof tfjs,
  model: CompiledModel,
  tensors: readonly StoredTensor[],
  iterations: number,
  from: StateSource,
): Promise<void> {
  const { optimizer, trainable } = model;
  checkOptimizer(optimizer, tensors, from.where);
  restoreWeights(tf, model.weights, tensors, from.where);
  await restoreOptimizer(tf, optimizer, trainable, tensors, from);
  setIterations(optimizer, iterations);
}

/**
 * Restores only the model weights from a checkpoint's tensors.
 * @param model the model's name, if a loop's checkpoint contains several models.
 * @throws TonyError CHECKPOINT_MISMATCH, without changing anything, if the tensors belong to another model.
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
