import fc from 'fast-check';
import { type Action, OPTIMIZER_KINDS, type OptimizerChoice, type Program, promised, type StepAction, type TrunkLayer } from './program.ts';

const units = fc.constantFrom(2, 4);

const trunkLayer: fc.Arbitrary<TrunkLayer> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('dense' as const),
      units,
      activation: fc.constantFrom('tanh', 'sigmoid', 'elu'),
      bias: fc.boolean(),
      l2: fc.constantFrom(0, 0.01),
    }),
  },
  fc.record({ kind: fc.constantFrom('conv', 'lstm'), units }),
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('dropout', 'layerNorm', 'batchNorm') }) },
);

const optimizer: fc.Arbitrary<OptimizerChoice> = fc.record({
  kind: fc.constantFrom(...(Object.keys(OPTIMIZER_KINDS) as (keyof typeof OPTIMIZER_KINDS)[])),
  rate: fc.constantFrom(1, 0.5),
});

const fit: fc.Arbitrary<Action> = fc.record({
  do: fc.constant('fit' as const),
  head: fc.nat(1),
  optimizer: fc.nat(1),
  recompile: fc.boolean(),
  epochs: fc.integer({ min: 1, max: 2 }),
  batchSize: fc.integer({ min: 1, max: 4 }),
  examples: fc.integer({ min: 1, max: 16 }),
  accumulate: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 3 })),
  clip: fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, fc.constantFrom({ norm: 0.1 }, { norm: 0.5 }, { value: 0.05 })),
  sampleWeight: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, fc.constant(true)),
  checkpoint: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, fc.constant(true)),
  data: fc.constantFrom('tensors', 'columns', 'dataset', 'batches', 'tf.data'),
});

const step = (variables: readonly StepAction['variables'][]): fc.Arbitrary<Action> =>
  fc.record({
    do: fc.constant('step' as const),
    heads: fc.constantFrom([0], [1], [0, 1]),
    optimizer: fc.nat(1),
    variables: fc.constantFrom(...variables),
    named: fc.constantFrom('variables', 'layer weights', 'models'),
    late: fc.boolean(),
    steps: fc.integer({ min: 1, max: 4 }),
    examples: fc.array(fc.nat(4), { minLength: 3, maxLength: 3 }),
  });

const freeze: fc.Arbitrary<Action> = fc.record({ do: fc.constant('freeze' as const), layer: fc.nat(4), trainable: fc.boolean() });
const late: fc.Arbitrary<Action> = fc.constant({ do: 'late' as const });
const renew: fc.Arbitrary<Action> = fc.record({ do: fc.constant('renew' as const), optimizer: fc.nat(1) });

/** Restricts the generated programs. Default: all kinds of programs. */
export interface Choice {
  readonly workers?: readonly number[] | undefined;
  readonly strategies?: readonly Program['strategy'][] | undefined;
  readonly actions?: readonly Action['do'][] | undefined;
  readonly variables?: readonly StepAction['variables'][] | undefined;
  readonly unequalStarts?: boolean | undefined;
}

const WEIGHTS: Readonly<Record<Action['do'], number>> = { fit: 4, step: 4, freeze: 2, late: 1, renew: 1 };

/**
 * Generates programs that must give the same result on several workers as in one process. fast-check shrinks a failing program towards one
 * worker, one layer and one action.
 */
export function programs({
  workers = [1, 2, 3],
  strategies = ['all-reduce', 'float16', 'parameter-server'],
  actions = ['fit', 'step', 'freeze', 'late', 'renew'],
  variables = ['default', 'both', 'trunk', 'heads', 'late'],
  unequalStarts = true,
}: Choice = {}): fc.Arbitrary<Program> {
  const kinds = { fit, step: step(variables), freeze, late, renew };
  const action = fc.oneof(...actions.map((kind) => ({ weight: WEIGHTS[kind], arbitrary: kinds[kind] })));
  return fc
    .record({
      workers: fc.constantFrom(...workers),
      strategy: fc.constantFrom(...strategies),
      servers: fc.integer({ min: 1, max: 2 }),
      seed: fc.nat(999),
      unequalStart: unequalStarts ? fc.boolean() : fc.constant(false),
      trunk: fc.array(trunkLayer, { maxLength: 3 }),
      heads: fc.integer({ min: 1, max: 2 }),
      optimizers: fc.array(optimizer, { minLength: 1, maxLength: 2 }),
      actions: fc.array(action, { minLength: 1, maxLength: 6 }),
    })
    .map(promised);
}
