import { TonyError } from '../../platform/errors.ts';

/** A shape whose first dimension is the batch. Null sizes are variable. */
export type BatchShape = readonly (number | null)[];

/** A model's input or output. The shape is null if the model accepts any. */
export interface FedTensor {
  readonly name: string;
  readonly shape: BatchShape | null;
}

export interface FedTarget extends FedTensor {
  /** The name of the output's loss, or null for a custom function. */
  readonly loss: string | null;
}

/** Members of a tf.LayersModel that its type declarations omit. */
export interface FedModel {
  readonly feedInputNames: readonly string[];
  readonly feedInputShapes: readonly (BatchShape | null | undefined)[];
}

export function inputsOf({ feedInputNames, feedInputShapes }: FedModel): FedTensor[] {
  return feedInputNames.map((name, at) => ({ name, shape: feedInputShapes[at] ?? null }));
}

interface Sized {
  readonly shape: readonly number[];
}

/**
 * Checks a batch's inputs as `model.fit` does.
 * @throws TonyError DATA_INVALID that names the input, if a shape differs from the shape that the model expects
 */
export function checkInputShapes(inputs: readonly FedTensor[], tensors: readonly Sized[]): void {
  for (const [at, { name, shape }] of inputs.entries()) {
    checkShape(`input ${name}`, shape, tensors[at]?.shape ?? []);
  }
}

/**
 * Checks a batch's targets as `model.fit` does. Most losses of TensorFlow.js would broadcast other shapes, and train on wrong values.
 * @throws TonyError DATA_INVALID that names the output
 */
export function checkTargetShapes(targets: readonly FedTarget[], tensors: readonly Sized[]): void {
  for (const [at, { name, shape, loss }] of targets.entries()) {
    const found = tensors[at]?.shape ?? [];
    if (loss === 'categoricalCrossentropy' && found.at(-1) === 1) {
      throw new TonyError('DATA_INVALID', `the targets of output ${name} have one number for each example`, {
        hint: 'categoricalCrossentropy needs one-hot targets (tf.oneHot). For class numbers, use the loss sparseCategoricalCrossentropy.',
      });
    }
    const ofClasses = loss === 'sparseCategoricalCrossentropy' && shape !== null;
    checkShape(`target of output ${name}`, ofClasses ? [...shape.slice(0, -1), 1] : shape, found);
  }
}

function checkShape(what: string, expected: BatchShape | null, found: readonly number[]): void {
  if (expected === null) {
    return;
  }
  const fits = found.length === expected.length && expected.every((size, axis) => axis === 0 || size === null || size === found[axis]);
  if (!fits) {
    const wanted = expected.slice(1).map((size) => size ?? 'any');
    const message = `the ${what} has the shape [${found.slice(1).join(', ')}] for each example, but must have [${wanted.join(', ')}]`;
    throw new TonyError('DATA_INVALID', message);
  }
}

/** @throws TonyError DATA_INVALID if the tensors of a batch have different numbers of examples */
export function checkExamples(tensors: readonly Sized[]): void {
  const counts = tensors.map(({ shape }) => shape[0] ?? 0);
  if (counts.some((count) => count !== counts[0])) {
    throw new TonyError('DATA_INVALID', `the inputs and targets of a batch have different numbers of examples: ${counts.join(', ')}`);
  }
}
