import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import { categoricalCrossentropy, type LossFunction, sparseCategoricalCrossentropy } from '../backend/native/categorical-crossentropy.ts';
import { type BatchShape, checkExamples, checkInputShapes, checkTargetShapes, type FedModel, inputsOf } from './batch-shapes.ts';
import { ignoredArguments } from './compile-arguments.ts';
import { checkBatch, type StatefulBatches, statefulBatches } from './stateful-batches.ts';
import type { StepLoss } from './step-part.ts';

/** Members of a compiled tf.LayersModel that its type declarations omit. A Sequential model stores these members in an inner model. */
interface CompiledInternals extends FedModel {
  readonly model?: CompiledInternals;
  /** The loss passed to `compile`: a name or function for all outputs, an array with one per output, or an object keyed by output name. */
  readonly loss?: unknown;
  readonly lossFunctions?: readonly LossFunction[];
  readonly outputNames: readonly string[];
  readonly metricsTensors?: readonly (readonly [LossFunction, number])[];
  readonly metricsNames?: readonly string[];
  readonly collectedTrainableWeights?: readonly { read(): tfjs.Variable }[];
  readonly trainableWeights: readonly { read(): tfjs.Variable }[];
  readonly weights: readonly { readonly originalName: string; read(): tfjs.Variable }[];
  /** Only in compiled models. */
  readonly feedOutputShapes?: readonly BatchShape[];
  readonly inputs: readonly unknown[];
  readonly outputs: readonly unknown[];
  stopTraining_?: boolean;
  apply(inputs: tfjs.Tensor | tfjs.Tensor[], options: { training: boolean }): tfjs.Tensor | tfjs.Tensor[];
  calculateLosses(): tfjs.Scalar[];
}

export interface NamedWeight {
  readonly name: string;
  readonly variable: tfjs.Variable;
}

export interface CompiledModel {
  readonly model: tfjs.LayersModel;
  readonly optimizer: tfjs.Optimizer;
  /** The trained weights, in the order in which the optimizer applies gradients. */
  readonly trainable: readonly tfjs.Variable[];
  /** The names of weights that became trainable after `compile`. As with `model.fit`, training does not update these weights. */
  readonly thawed: readonly string[];
  /** Non-trainable float32 weights that layers may update during training, for example moving averages. */
  readonly moving: readonly tfjs.Variable[];
  readonly weights: readonly NamedWeight[];
  /** The batches that the model requires because it is stateful, or null. */
  readonly statefulBatches: StatefulBatches | null;
  /** `loss`, followed by the metrics passed to `compile`. */
  readonly metricNames: readonly string[];
  /** `model.stopTraining`, which callbacks set. */
  stopTraining: boolean;
  /**
   * Computes the metrics (without `loss`) and the loss to minimise, including regularisation, as `model.fit` does. tf.tidy does not
   * dispose the metrics.
   * @param weights the example weights for each output, or null for equal weights. As with `model.fit`, example weights do not affect the
   *   metrics. The weighted losses are divided by the number of examples, not by the sum of the weights.
   */
  lossOf(x: readonly tfjs.Tensor[], y: readonly tfjs.Tensor[], weights?: readonly (tfjs.Tensor | null)[]): StepLoss;
  /** Computes the metrics and the loss (without regularisation), as `model.evaluate` does. tf.tidy disposes the results. */
  evaluate(x: readonly tfjs.Tensor[], y: readonly tfjs.Tensor[]): tfjs.Scalar[];
}

const IN_ONE_PASS: Readonly<Record<string, typeof categoricalCrossentropy>> = { categoricalCrossentropy, sparseCategoricalCrossentropy };

/** Returns all weights of a compiled or uncompiled model, in the model's order. */
export function weightsOf(model: tfjs.LayersModel): NamedWeight[] {
  const { weights } = model as unknown as CompiledInternals;
  return weights.map((weight) => ({ name: weight.originalName, variable: weight.read() }));
}

/** @throws TonyError MODEL_INVALID if the model is not compiled or has no trainable weights. */
export function inspectModel(tf: typeof tfjs, model: tfjs.LayersModel): CompiledModel {
  const outer = model as unknown as CompiledInternals;
  const inner = outer.model ?? outer;
  const losses = inner.lossFunctions?.map((own, output) => IN_ONE_PASS[lossNameOf(inner, output) ?? '']?.(tf, own) ?? own);
  if (model.optimizer === undefined || losses === undefined) {
    throw new TonyError('MODEL_INVALID', 'the model is not compiled', { hint: 'Call model.compile({ optimizer, loss }) before fit.' });
  }
  const [ignored] = ignoredArguments(model);
  if (ignored !== undefined) {
    throw new TonyError('MODEL_INVALID', `TensorFlow.js ignores the argument ${ignored.name} of model.compile`, {
      hint: ignored.advice,
    });
  }
  const trainable = (inner.collectedTrainableWeights ?? inner.trainableWeights).map((weight) => weight.read());
  if (trainable.length === 0) {
    throw new TonyError('MODEL_INVALID', 'the model has no trainable weights');
  }
  const weights = weightsOf(model);
  const ids = new Set(trainable.map(({ id }) => id));
  const metricNames = distinct((inner.metricsNames ?? ['loss']).map(named));
  const required = statefulBatches(model);
  const run = runOf(tf, inner, losses, required);
  return {
    model,
    optimizer: model.optimizer,
    trainable,
    thawed: inner.trainableWeights.map((weight) => weight.read()).flatMap(({ id, name }) => (ids.has(id) ? [] : [name])),
    moving: weights.map(({ variable }) => variable).filter(({ id, dtype }) => !ids.has(id) && dtype === 'float32'),
    weights,
    statefulBatches: required,
    metricNames,
    get stopTraining() {
      return inner.stopTraining_ === true;
    },
    set stopTraining(stop) {
      inner.stopTraining_ = stop;
    },
    lossOf(x, y, exampleWeights = []) {
      const { each, metrics } = run(x, y, exampleWeights, true);
      const sum = each.reduce((total, loss) => tf.add(total, loss));
      const loss = inner.calculateLosses().reduce((total, penalty) => tf.add(total, penalty), tf.mean(sum)) as tfjs.Scalar;
      return { loss, metrics: metrics.map((metric) => tf.keep(metric.clone())) };
    },
    evaluate(x, y) {
      const { each, metrics } = run(x, y, [], false);
      const loss = each.map((one) => tf.mean(one)).reduce((total, one) => tf.add(total, one)) as tfjs.Scalar;
      return [loss, ...metrics];
    },
  };
}

/** Returns a function that runs the model on a batch and returns the metrics and, for each output, the loss of each example (`each`). */
function runOf(tf: typeof tfjs, inner: CompiledInternals, losses: readonly LossFunction[], required: StatefulBatches | null) {
  const metricFunctions = inner.metricsTensors ?? [];
  const fed = {
    inputs: inputsOf(inner),
    targets: inner.outputNames.map((name, at) => ({ name, shape: inner.feedOutputShapes?.[at] ?? null, loss: lossNameOf(inner, at) })),
  };
  // As with model.fit, vectors become columns. Otherwise, targets of shape [n] and outputs of shape [n, 1] would broadcast to [n, n].
  const asColumn = (tensor: tfjs.Tensor) => (tensor.rank === 1 ? tf.expandDims(tensor, 1) : tensor);
  return (x: readonly tfjs.Tensor[], y: readonly tfjs.Tensor[], weights: readonly (tfjs.Tensor | null)[], training: boolean) => {
    if (x.length !== inner.inputs.length || y.length !== inner.outputs.length) {
      const has = `the data has ${x.length} inputs and ${y.length} targets`;
      throw new TonyError('DATA_INVALID', `${has}; the model has ${inner.inputs.length} and ${inner.outputs.length}`);
    }
    checkBatch(required, x[0]?.shape[0] ?? 0);
    const [inputs, targets] = [x.map(asColumn), y.map(asColumn)];
    checkInputShapes(fed.inputs, inputs);
    checkTargetShapes(fed.targets, targets);
    checkExamples([...inputs, ...targets]);
    const outputs = [inner.apply(inputs.length === 1 ? (inputs[0] as tfjs.Tensor) : inputs, { training })].flat();
    const each = losses.map((lossFunction, index) =>
      weighted(tf, lossFunction(targets[index] as tfjs.Tensor, outputs[index] as tfjs.Tensor), weights[index] ?? null),
    );
    const metrics = metricFunctions.map(([metric, output], index) =>
      // If the model has several outputs, their losses precede the other metrics.
      outputs.length > 1 && index < outputs.length
        ? (tf.mean(each[index] as tfjs.Tensor) as tfjs.Scalar)
        : (tf.mean(metric(targets[output] as tfjs.Tensor, outputs[output] as tfjs.Tensor)) as tfjs.Scalar),
    );
    return { each, metrics };
  };
}

function lossNameOf({ loss, outputNames }: CompiledInternals, output: number): string | null {
  const byOutput = loss as Readonly<Record<string | number, unknown>> | undefined;
  const own = typeof loss === 'string' ? loss : byOutput?.[Array.isArray(loss) ? output : (outputNames[output] as string)];
  return typeof own === 'string' ? own : null;
}

/** Multiplies the losses by their example weights. @param losses a tensor of shape [examples, ...]. */
function weighted(tf: typeof tfjs, losses: tfjs.Tensor, weights: tfjs.Tensor | null): tfjs.Tensor {
  if (weights === null) {
    return losses;
  }
  if (losses.rank === 0 || losses.shape[0] !== weights.size) {
    throw new TonyError('DATA_INVALID', `there are weights for ${weights.size} examples, but the losses have the shape [${losses.shape}]`, {
      hint: 'The loss function must return a number for each example.',
    });
  }
  return tf.mul(losses, tf.reshape(weights, [weights.size, ...new Array<number>(losses.rank - 1).fill(1)]));
}

/** Names an anonymous metric function. TensorFlow.js uses an empty name or, with several outputs, the output's name and an underscore. */
function named(name: string): string {
  return name === '' || name.endsWith('_') ? `${name}metric` : name;
}

/** Numbers repeated names, as `model.fit` does: `name_0`, `name_1` and so on. */
function distinct(names: readonly string[]): string[] {
  return names.map((name, index) => {
    const isRepeated = names.indexOf(name) !== names.lastIndexOf(name);
    return isRepeated ? `${name}_${names.slice(0, index).filter((before) => before === name).length}` : name;
  });
}
