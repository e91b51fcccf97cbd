import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import { type LayerTree, layersOf } from '../backend/backend.ts';

/** A layer weight, as in `model.trainableWeights` and `layer.weights`. */
export interface LayerWeight {
  read(): tfjs.Tensor;
}

/** An object that a program can train: a variable, a layer weight, or a model with all its trainable weights. */
export type Trainable = tfjs.Variable | LayerWeight | tfjs.LayersModel;

export interface TrainedVariables {
  /** The variables in the order in which the program passed them, without duplicates. */
  readonly variables: readonly tfjs.Variable[];
  readonly moving: readonly tfjs.Variable[];
}

/** @throws TonyError USAGE if an element is not trainable, a variable is disposed, or there are no variables. */
export function trainedVariables(tf: typeof tfjs, given: Trainable | readonly Trainable[]): TrainedVariables {
  const list = [given].flat() as Trainable[];
  const variables = [...new Set(list.flatMap((each, index) => variablesOf(tf, each, index)))];
  const disposed = variables.find(({ isDisposed }) => isDisposed);
  if (disposed !== undefined) {
    throw new TonyError('USAGE', `the variable ${disposed.name} is disposed`, { hint: 'Remove it from the variables to train.' });
  }
  if (variables.length === 0) {
    throw new TonyError('USAGE', 'there are no variables to train', { hint: 'Create the model or its variables before the first step.' });
  }
  return { variables, moving: [...new Set(list.filter(isModel).flatMap((model) => movingAveragesOf(model)))] };
}

/**
 * Returns all trainable variables in TensorFlow.js, except the state of `optimizers`. Adam and Adamax register their state as trainable, so
 * it must be excluded.
 */
export function allTrainable(tf: typeof tfjs, optimizers: Iterable<tfjs.Optimizer>): tfjs.Variable[] {
  const own = new Set<unknown>([...optimizers].flatMap((optimizer) => Object.values(optimizer)));
  return Object.values(tf.engine().registeredVariables).filter((variable) => variable.trainable && !own.has(variable));
}

/** Returns the variables of all given trainables. For a model, returns all weights, including moving averages. */
export function allVariables(tf: typeof tfjs, given: Trainable | readonly Trainable[]): tfjs.Variable[] {
  const list = [given].flat() as Trainable[];
  return [...new Set(list.flatMap((each, index) => (isModel(each) ? each.weights.map(readWeight) : variablesOf(tf, each, index))))];
}

/** Returns the moving means and variances of a model's batch normalisation layers. */
export function movingAveragesOf(model: tfjs.LayersModel): tfjs.Variable[] {
  const layers = [...layersOf(model as unknown as LayerTree)].filter((layer) => layer.getClassName() === 'BatchNormalization');
  return layers.flatMap((layer) => {
    const { movingMean, movingVariance } = layer as unknown as { readonly movingMean: LayerWeight; readonly movingVariance: LayerWeight };
    return [movingMean, movingVariance].map(readWeight);
  });
}

function variablesOf(tf: typeof tfjs, given: Trainable, index: number): tfjs.Variable[] {
  if (given instanceof tf.Variable) {
    return [given];
  }
  if (isModel(given)) {
    return given.trainableWeights.map(readWeight);
  }
  const read = (given as Partial<LayerWeight> | null)?.read;
  const variable: unknown = typeof read === 'function' ? read.call(given) : undefined;
  if (variable instanceof tf.Variable) {
    return [variable];
  }
  throw new TonyError('USAGE', `variable ${index} is not a tf.Variable, a weight of a layer, or a model`, {
    hint: 'Pass variables, model.trainableWeights or a LayersModel.',
  });
}

function readWeight(weight: unknown): tfjs.Variable {
  return (weight as LayerWeight).read() as tfjs.Variable;
}

function isModel(given: Trainable): given is tfjs.LayersModel {
  return typeof given === 'object' && given !== null && 'trainableWeights' in given;
}
