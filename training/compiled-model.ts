import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../conf/errors.ts';
import { categoricalCrossentropy, type LossFunction, sparseCategoricalCrossentropy } from './native/categorical-crossentropy.ts';
import type { StepLoss } from './step-part.ts';

/**
 * The parts of a compiled tf.LayersModel that its own `fit` uses, but that its declarations do not show. A Sequential keeps them in an
 * inner model.
 */
interface CompiledInternals {
  readonly model?: CompiledInternals;
  /** As `compile` was given it: names or functions, for all outputs, each, or by their names. */
  readonly loss?: unknown;
  readonly lossFunctions?: readonly LossFunction[];
  readonly outputNames: readonly string[];
  readonly metricsTensors?: readonly (readonly [LossFunction, number])[];
  readonly metricsNames?: readonly string[];
  readonly collectedTrainableWeights?: readonly { read(): tfjs.Variable }[];
  readonly trainableWeights: readonly { read(): tfjs.Variable }[];
  readonly weights: readonly { readonly originalName: string; read(): tfjs.Variable }[];
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
  /** In the order in which gradients are applied. */
  readonly trainable: readonly tfjs.Variable[];
  /** Changed by the layers themselves while training (moving averages). */
  readonly moving: readonly tfjs.Variable[];
  readonly weights: readonly NamedWeight[];
  /** `loss` and what the model was compiled with. */
  readonly metricNames: readonly string[];
  /** `model.stopTraining`, which callbacks set. */
  stopTraining: boolean;
  /**
   * The loss to minimise, regularisation included, and the metrics but for `loss`, kept beyond tf.tidy: as the model's own training function
   * computes them.
   * @param weights of the examples, for each output; null where all count the same. As in model.fit they weigh the loss, not the metrics, and
   *   the loss is divided by the number of examples, not by the sum of the weights.
   */
  lossOf(x: readonly tfjs.Tensor[], y: readonly tfjs.Tensor[], weights?: readonly (tfjs.Tensor | null)[]): StepLoss;
  /** Loss (without regularisation) and metrics as `model.evaluate` gives them, not kept. */
  evaluate(x: readonly tfjs.Tensor[], y: readonly tfjs.Tensor[]): tfjs.Scalar[];
}

/** Losses that cost TensorFlow.js dozens of small operations. */
const IN_ONE_PASS: Readonly<Record<string, typeof categoricalCrossentropy>> = { categoricalCrossentropy, sparseCategoricalCrossentropy };

/** All weights of a model, compiled or not, in its own order. */
export function weightsOf(model: tfjs.LayersModel): NamedWeight[] {
  const { weights } = model as unknown as CompiledInternals;
  return weights.map((weight) => ({ name: weight.originalName, variable: weight.read() }));
}

/** @throws TonyError MODEL_INVALID when the model is not compiled, or has nothing to train. */
export function inspectModel(tf: typeof tfjs, model: tfjs.LayersModel): CompiledModel {
  const outer = model as unknown as CompiledInternals;
  const inner = outer.model ?? outer;
  const losses = inner.lossFunctions?.map((own, output) => IN_ONE_PASS[lossNameOf(inner, output) ?? '']?.(tf, own) ?? own);
  if (model.optimizer === undefined || losses === undefined) {
    throw new TonyError('MODEL_INVALID', 'the model is not compiled', { hint: 'Call model.compile({ optimizer, loss }) before fit.' });
  }
  const trainable = (inner.collectedTrainableWeights ?? inner.trainableWeights).map((weight) => weight.read());
  if (trainable.length === 0) {
    throw new TonyError('MODEL_INVALID', 'the model has no trainable weights');
  }
  const weights = weightsOf(model);
  const ids = new Set(trainable.map(({ id }) => id));
  const metricFunctions = inner.metricsTensors ?? [];
  const metricNames = distinct(inner.metricsNames ?? ['loss']);
  const run = (x: readonly tfjs.Tensor[], y: readonly tfjs.Tensor[], weights: readonly (tfjs.Tensor | null)[], training: boolean) => {
    if (x.length !== inner.inputs.length || y.length !== inner.outputs.length) {
      const has = `the data has ${x.length} inputs and ${y.length} targets`;
      throw new TonyError('DATA_INVALID', `${has}, the model ${inner.inputs.length} and ${inner.outputs.length}`);
    }
    const outputs = [inner.apply(x.length === 1 ? (x[0] as tfjs.Tensor) : [...x], { training })].flat();
    const each = losses.map((lossFunction, index) =>
      weighted(tf, lossFunction(y[index] as tfjs.Tensor, outputs[index] as tfjs.Tensor), weights[index] ?? null),
    );
    const metrics = metricFunctions.map(([metric, output], index) =>
      // With several outputs the first metrics are the outputs' own losses.
      outputs.length > 1 && index < outputs.length
        ? (tf.mean(each[index] as tfjs.Tensor) as tfjs.Scalar)
        : (tf.mean(metric(y[output] as tfjs.Tensor, outputs[output] as tfjs.Tensor)) as tfjs.Scalar),
    );
    return { each, metrics };
  };
  return {
    model,
    optimizer: model.optimizer,
    trainable,
    moving: weights.map(({ variable }) => variable).filter(({ id, dtype }) => !ids.has(id) && dtype === 'float32'),
    weights,
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

/** null for a function. */
function lossNameOf({ loss, outputNames }: CompiledInternals, output: number): string | null {
  const byOutput = loss as Readonly<Record<string | number, unknown>> | undefined;
  const own = typeof loss === 'string' ? loss : byOutput?.[Array.isArray(loss) ? output : (outputNames[output] as string)];
  return typeof own === 'string' ? own : null;
}

/** @param losses of shape [examples, ...]. */
function weighted(tf: typeof tfjs, losses: tfjs.Tensor, weights: tfjs.Tensor | null): tfjs.Tensor {
  if (weights === null) {
    return losses;
  }
  if (losses.rank === 0 || losses.shape[0] !== weights.size) {
    throw new TonyError('DATA_INVALID', `${weights.size} weights of examples do not fit losses of the shape [${losses.shape}]`, {
      hint: 'The loss function must give a number for each example.',
    });
  }
  return tf.mul(losses, tf.reshape(weights, [weights.size, ...new Array<number>(losses.rank - 1).fill(1)]));
}

/** Several outputs may have metrics of one name. */
function distinct(names: readonly string[]): string[] {
  const counts = new Map<string, number>();
  return names.map((name) => {
    const before = counts.get(name) ?? 0;
    counts.set(name, before + 1);
    return before === 0 ? name : `${name}_${before}`;
  });
}
