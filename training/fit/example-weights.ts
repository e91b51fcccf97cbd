import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';

/** The weight of each class's examples in the loss: `{ 0: 1, 1: 8 }`. */
export type ClassWeights = Readonly<Record<number, number>>;

/** Class weights for the model's output. For several outputs: a list in the model's order, or an object keyed by output name. */
export type ClassWeight = ClassWeights | readonly ClassWeights[] | Readonly<Record<string, ClassWeights>>;

/** Holds the class weights as one tensor per output. Call `dispose` to free the tensors. */
export class ClassWeightTables {
  readonly #tf: typeof tfjs;
  readonly #tables: readonly (tfjs.Tensor1D | null)[];

  /** @throws TonyError DATA_INVALID if a class has no weight, or if an output's targets are not classes. */
  constructor(tf: typeof tfjs, model: tfjs.LayersModel, classWeight: ClassWeight) {
    this.#tf = tf;
    this.#tables = byOutput(model.outputNames, classWeight).map((weights, index) => {
      return weights === null ? null : tf.tensor1d(tableOf(weights, model, index), 'float32');
    });
  }

  /**
   * Returns, for each output, the weight of each example, or null if the output has no class weights. Targets are one-hot [n, classes], or
   * class indices [n] or [n, 1].
   */
  of(targets: readonly tfjs.Tensor[]): (tfjs.Tensor1D | null)[] {
    const tf = this.#tf;
    return targets.map((target, index) => {
      const table = this.#tables[index] ?? null;
      if (table === null) {
        return null;
      }
      if (target.rank > 2) {
        throw new TonyError('DATA_INVALID', `class weights require one class per example; the targets have the shape [${target.shape}]`);
      }
      const isOneHot = target.rank === 2 && (target.shape[1] as number) > 1;
      const classes = isOneHot ? tf.argMax(target, 1) : tf.cast(tf.reshape(target, [-1]), 'int32');
      return tf.gather(table, classes as tfjs.Tensor1D);
    });
  }

  dispose(): void {
    this.#tf.dispose(this.#tables.filter((table) => table !== null));
  }
}

function byOutput(outputs: readonly string[], given: ClassWeight): (ClassWeights | null)[] {
  if (Array.isArray(given)) {
    if (given.length !== outputs.length) {
      throw new TonyError('USAGE', `classWeight is a list for ${given.length} outputs, but the model has ${outputs.length}`);
    }
    return [...(given as readonly ClassWeights[])];
  }
  const named = given as Readonly<Record<string, ClassWeights | number>>;
  const isNamed = Object.values(named).some((value) => typeof value === 'object');
  if (!isNamed && outputs.length > 1) {
    throw new TonyError('USAGE', `the model has ${outputs.length} outputs: classWeight must name the output to which it applies`, {
      hint: `Use { ${outputs[0]}: { 0: 1, 1: 2 } }, or a list.`,
    });
  }
  if (!isNamed) {
    return [given as ClassWeights];
  }
  const unknown = Object.keys(named).filter((name) => !outputs.includes(name));
  if (unknown.length > 0) {
    throw new TonyError('USAGE', `classWeight names ${unknown.join(', ')}, but the model's outputs are ${outputs.join(', ')}`);
  }
  return outputs.map((name) => (named[name] as ClassWeights | undefined) ?? null);
}

function tableOf(weights: ClassWeights, model: tfjs.LayersModel, output: number): number[] {
  const units = (model.outputs[output] as tfjs.SymbolicTensor).shape.at(-1) ?? 0;
  // A model with one output unit predicts the probability of the second of two classes.
  const classes = units === 1 ? 2 : units;
  return Array.from({ length: classes }, (_, index) => {
    const weight = weights[index];
    if (typeof weight !== 'number' || !Number.isFinite(weight) || weight < 0) {
      throw new TonyError(
        'DATA_INVALID',
        `classWeight has ${weight} for class ${index}, but each of the ${classes} classes requires a number`,
      );
    }
    return weight;
  });
}
