import { type Action, type FitAction, type Program, promised, type StepAction } from './program.ts';

function fitOf(given: Partial<FitAction> = {}): FitAction {
  return {
    ...{ do: 'fit', head: 0, optimizer: 0, recompile: false, epochs: 1, batchSize: 2, examples: 7, accumulate: 1, clip: null },
    ...{ sampleWeight: false, checkpoint: false, data: 'tensors' },
    ...given,
  };
}

function stepOf(given: Partial<StepAction> = {}): StepAction {
  return {
    ...{ do: 'step', heads: [0], optimizer: 0, variables: 'default', named: 'variables', late: false, steps: 2, examples: [2, 3, 1] },
    ...given,
  };
}

function programOf(actions: readonly Action[], given: Partial<Program> = {}): Program {
  return promised({
    ...{ workers: 2, strategy: 'all-reduce', servers: 0, seed: 1, unequalStart: false, heads: 2, actions },
    trunk: [{ kind: 'dense', units: 4, activation: 'tanh', bias: true, l2: 0 }],
    optimizers: [{ kind: 'momentum', rate: 1 }],
    ...given,
  });
}

const alone = { workers: 1, strategy: 'parameter-server', servers: 2 } as const;
const freeze = { do: 'freeze', layer: 0, trainable: false } as const;
const thaw = { ...freeze, trainable: true } as const;

/** Minimal programs that expose past or likely defects. */
export const EXAMPLES: Readonly<Record<string, Program>> = {
  'one optimizer trains the trunk and the heads in turn': programOf([
    stepOf({ variables: 'trunk' }),
    stepOf({ variables: 'heads' }),
    stepOf({ variables: 'trunk' }),
  ]),
  'one optimizer trains the trunk and the heads in turn, on parameter servers': programOf(
    [stepOf({ variables: 'trunk' }), stepOf({ variables: 'heads' }), stepOf({ variables: 'trunk' })],
    alone,
  ),
  'a variable is created after the first step': programOf([stepOf(), { do: 'late' }, stepOf({ late: true }), stepOf()]),
  'a variable is created after the first step, on parameter servers': programOf(
    [stepOf(), { do: 'late' }, stepOf({ late: true }), stepOf()],
    alone,
  ),
  'a layer is frozen between two fits': programOf([fitOf(), freeze, fitOf(), thaw, fitOf()]),
  'a layer is frozen between two fits of adam': programOf([fitOf(), freeze, fitOf({ recompile: true }), thaw, fitOf()], {
    optimizers: [{ kind: 'adam', rate: 1 }],
  }),
  'a layer is frozen between two loops': programOf([stepOf(), freeze, stepOf(), thaw, stepOf()]),
  'two heads train in turn, with all variables in the list': programOf(
    [stepOf({ heads: [0] }), stepOf({ heads: [1] }), stepOf({ heads: [0] })],
    {
      optimizers: [{ kind: 'adam', rate: 1 }],
    },
  ),
  'fit trains two heads in turn with one optimizer': programOf([fitOf({ head: 0 }), fitOf({ head: 1 }), fitOf({ head: 0 })]),
  'a second fit of adagrad on parameter servers': programOf([fitOf(), fitOf()], { ...alone, optimizers: [{ kind: 'adagrad', rate: 1 }] }),
  'a second fit of adam on parameter servers': programOf([fitOf(), fitOf({ clip: { norm: 0.1 } })], {
    ...alone,
    optimizers: [{ kind: 'adam', rate: 1 }],
  }),
  'a loop and then fit with the same adamax optimizer, on parameter servers': programOf([stepOf(), fitOf(), stepOf()], {
    ...alone,
    optimizers: [{ kind: 'adamax', rate: 1 }],
  }),
  'adam with the default list of variables': programOf([stepOf(), stepOf({ optimizer: 1 }), stepOf()], {
    workers: 3,
    optimizers: [
      { kind: 'adam', rate: 1 },
      { kind: 'adamax', rate: 1 },
    ],
  }),
  'an optimizer is disposed and created again': programOf([stepOf(), { do: 'renew', optimizer: 0 }, stepOf(), fitOf()]),
  'two optimizers train the same variables on parameter servers': programOf([stepOf(), stepOf({ optimizer: 1 }), stepOf()], {
    workers: 2,
    ...{ strategy: 'parameter-server', servers: 2 },
    optimizers: [
      { kind: 'sgd', rate: 1 },
      { kind: 'sgd', rate: 0.5 },
    ],
  }),
  'ranks start with different weights': programOf([stepOf(), fitOf()], { workers: 3, unequalStart: true }),
  'a rank has no examples': programOf([stepOf({ examples: [0, 3, 0] }), fitOf({ examples: 1 })], { workers: 3 }),
  'batch normalisation over the examples of all ranks': programOf([fitOf({ batchSize: 3, epochs: 2 })], {
    workers: 3,
    trunk: [{ kind: 'batchNorm' }, { kind: 'lstm', units: 4 }, { kind: 'batchNorm' }],
  }),
  'micro-batches, clipping and weights of examples, as float16': programOf(
    [fitOf({ accumulate: 3, clip: { norm: 0.2 }, sampleWeight: true, checkpoint: true, examples: 14, data: 'batches' })],
    { workers: 3, strategy: 'float16' },
  ),
};
