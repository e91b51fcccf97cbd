/**
 * A training program as a JSON value. Two interpreters run each program: `plain-side.ts` in one process with TensorFlow.js alone, and
 * `rank-side.ts` on each rank with this library. Their results must agree.
 */
export interface Program {
  readonly workers: number;
  readonly strategy: 'all-reduce' | 'float16' | 'parameter-server';
  /** The number of parameter servers, or 0 with other strategies. */
  readonly servers: number;
  /** The seed for the initial weights and the data. */
  readonly seed: number;
  /** If true, ranks above 0 start with different weights from rank 0. */
  readonly unequalStart: boolean;
  /** The layers shared by all heads. */
  readonly trunk: readonly TrunkLayer[];
  /** The number of heads. Each head is a model that consists of the trunk and its own dense layer. */
  readonly heads: number;
  readonly optimizers: readonly OptimizerChoice[];
  readonly actions: readonly Action[];
}

export type TrunkLayer =
  | {
      readonly kind: 'dense';
      readonly units: number;
      readonly activation: 'tanh' | 'sigmoid' | 'elu';
      readonly bias: boolean;
      readonly l2: number;
    }
  | { readonly kind: 'conv' | 'lstm'; readonly units: number }
  | { readonly kind: 'batchNorm' | 'layerNorm' | 'dropout' };

export interface OptimizerChoice {
  readonly kind: keyof typeof OPTIMIZER_KINDS;
  /** A factor by which to multiply the default learning rate. */
  readonly rate: number;
}

/** The default learning rates. At these rates, a dozen steps move weights by a few tenths and do not amplify rounding errors. */
export const OPTIMIZER_KINDS = {
  sgd: 0.1,
  momentum: 0.05,
  nesterov: 0.05,
  adagrad: 0.1,
  adadelta: 0.5,
  adam: 0.02,
  adamax: 0.02,
  rmsprop: 0.01,
  centered: 0.01,
} as const;

export type Action = FitAction | StepAction | FreezeAction | LateAction | RenewAction;

/** Calls `fit` for a head's model. */
export interface FitAction {
  readonly do: 'fit';
  readonly head: number;
  readonly optimizer: number;
  /** If true, the model is compiled again even if it already has this optimizer. */
  readonly recompile: boolean;
  readonly epochs: number;
  /** The batch size on each rank. */
  readonly batchSize: number;
  readonly examples: number;
  readonly accumulate: number;
  readonly clip: { readonly norm: number } | { readonly value: number } | null;
  readonly sampleWeight: boolean;
  readonly checkpoint: boolean;
  readonly data: 'tensors' | 'columns' | 'dataset' | 'batches' | 'tf.data';
}

/** A custom training loop. */
export interface StepAction {
  readonly do: 'step';
  readonly heads: readonly number[];
  readonly optimizer: number;
  readonly variables: 'default' | 'trunk' | 'heads' | 'both' | 'late';
  /** How the step passes its variables to this library. `models` applies only if `variables` is `both`. */
  readonly named: 'variables' | 'layer weights' | 'models';
  /** If true, the loss also depends on the variables created by `late` actions. */
  readonly late: boolean;
  readonly steps: number;
  /** The number of examples on each rank. Only the first `workers` numbers are used. At least one of them must be above 0. */
  readonly examples: readonly number[];
}

/** Freezes or unfreezes a layer. `layer` is an index into a list of the trunk's layers with weights, followed by the heads. */
export interface FreezeAction {
  readonly do: 'freeze';
  readonly layer: number;
  readonly trainable: boolean;
}

/** Creates a variable that does not belong to a layer. */
export interface LateAction {
  readonly do: 'late';
}

/** Disposes an optimizer and replaces it with a new one of the same kind. */
export interface RenewAction {
  readonly do: 'renew';
  readonly optimizer: number;
}

/** One side's result. The names do not depend on TensorFlow.js's variable names, so they are the same on both sides. */
export interface Outcome {
  readonly weights: Readonly<Record<string, readonly number[]>>;
  readonly slots: Readonly<Record<string, readonly number[]>>;
  /** The losses that both sides compute: one for each epoch of `fit`, and one for each step of a loop. */
  readonly losses: readonly (readonly [what: string, loss: number])[];
  /** The largest distance by which any weight moved in an action, summed over all actions. Only the plain side computes it. */
  readonly path: number;
}

/** An answer from the plain side or from a rank. */
export type Answer = { readonly outcome: Outcome } | { readonly error: string };

const isBatchNorm = ({ kind }: TrunkLayer) => kind === 'batchNorm';

/** Removes features for which the chosen strategy does not promise equal results. */
export function promised(program: Program): Program {
  const { workers, strategy } = program;
  const isServed = strategy === 'parameter-server';
  const alone = workers === 1;
  const hasLoop = program.actions.some((action) => action.do === 'step');
  // Custom loops and the parameter-server strategy do not synchronise batch normalisation.
  const normalises = alone || !(hasLoop || isServed);
  const trunk = program.trunk.map((layer): TrunkLayer => (isBatchNorm(layer) && !normalises ? { kind: 'layerNorm' } : layer));
  // Only sgd gives the same result for one update with the whole gradient as for two updates with half of the gradient each.
  const optimizers = isServed && !alone ? program.optimizers.map(({ rate }) => ({ kind: 'sgd' as const, rate })) : program.optimizers;
  const hasTrunk = trunk.some(({ kind }) => kind !== 'dropout');
  const actions = program.actions.map((action, at): Action => {
    if (action.do === 'step') {
      const heads = [...new Set(action.heads.map((head) => head % program.heads))];
      const late = action.late && program.actions.slice(0, at).some((before) => before.do === 'late');
      const isEmpty = { late: !late, trunk: !hasTrunk, default: false, both: false, heads: false }[action.variables];
      // Workers that step independently need at least one example.
      const least = isServed ? 1 : 0;
      const examples = action.examples.map((count, rank) => Math.max(count, rank === 0 && workers === 1 ? 1 : least));
      if (examples.slice(0, workers).every((count) => count === 0)) {
        examples[0] = 1;
      }
      return { ...action, heads, late, examples, variables: isEmpty ? 'default' : action.variables };
    }
    if (action.do !== 'fit') {
      return action;
    }
    const fit = { ...action, head: action.head % program.heads };
    const whole = fit.batchSize * workers;
    return {
      ...fit,
      // Batch normalisation computes separate statistics for each micro-batch.
      accumulate: trunk.some(isBatchNorm) || (isServed && !alone) ? 1 : fit.accumulate,
      ...(isServed && !alone ? { data: 'tensors' as const, examples: Math.ceil(fit.examples / whole) * whole } : {}),
    };
  });
  return { ...program, servers: isServed ? Math.max(1, program.servers) : 0, trunk, optimizers, actions };
}
