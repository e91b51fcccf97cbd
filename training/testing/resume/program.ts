import fc from 'fast-check';
import { OWN_KINDS, type OwnKind } from './own-optimizers.ts';

export const BUILT_IN_KINDS = ['sgd', 'momentum', 'adagrad', 'adadelta', 'adam', 'adamax', 'rmsprop'] as const;

export type OptimizerKind = OwnKind | (typeof BUILT_IN_KINDS)[number];

/** A training program as a JSON value. A program that is killed and resumed must end with the same bits as an undisturbed one. */
export interface ResumeProgram {
  readonly workers: number;
  readonly strategy: 'all-reduce' | 'parameter-server';
  readonly seed: number;
  readonly dropout: boolean;
  /** True if the model draws random numbers in training and in validation. */
  readonly sampling: boolean;
  readonly batchNorm: boolean;
  /** The optimizers by index. Phases of several models may share one. */
  readonly optimizers: readonly OptimizerKind[];
  /** True if the first model is a copy that the program has exported and loaded, while the original still exists. */
  readonly reloaded: boolean;
  readonly everySteps: number;
  readonly phases: readonly ResumePhase[];
  /** The numbers of steps, over all phases, after which each process is killed. */
  readonly kills: readonly number[];
}

export interface ResumePhase {
  readonly do: 'fit' | 'loop';
  /** One of two models with the same shapes. */
  readonly model: number;
  readonly optimizer: number;
  readonly epochs: number;
  readonly batchSize: number;
  readonly data: 'tensors' | 'dataset';
  readonly validation: boolean;
  /** Who sets the learning rate. */
  readonly rate: 'none' | 'epoch begin' | 'epoch end' | 'batch' | 'plateau' | 'schedule';
  readonly average: boolean;
  readonly stop: 'none' | 'patience' | 'own' | 'step';
  readonly restoreBest: boolean;
  readonly clip: boolean;
}

const phase: fc.Arbitrary<ResumePhase> = fc.record({
  do: fc.constantFrom('fit', 'fit', 'loop'),
  model: fc.nat(1),
  optimizer: fc.nat(1),
  epochs: fc.integer({ min: 1, max: 2 }),
  batchSize: fc.constantFrom(2, 3, 5),
  data: fc.constantFrom('tensors', 'dataset'),
  validation: fc.boolean(),
  rate: fc.constantFrom('none', 'epoch begin', 'epoch end', 'batch', 'plateau', 'schedule'),
  average: fc.boolean(),
  stop: fc.constantFrom('none', 'none', 'patience', 'own', 'step'),
  restoreBest: fc.boolean(),
  clip: fc.boolean(),
});

/** `fit` refuses a schedule for the wrapper, because its rate belongs to the inner optimizer. */
function settable(phase: ResumePhase, optimizers: readonly OptimizerKind[]): ResumePhase {
  const hasNoRate = optimizers[phase.optimizer % optimizers.length] === 'wrapper';
  return hasNoRate && phase.rate === 'schedule' ? { ...phase, rate: 'none' } : phase;
}

export const resumePrograms: fc.Arbitrary<ResumeProgram> = fc
  .record({
    workers: fc.constantFrom(1, 1, 2, 3),
    strategy: fc.constantFrom('all-reduce', 'all-reduce', 'all-reduce', 'parameter-server'),
    seed: fc.nat(999),
    dropout: fc.boolean(),
    sampling: fc.boolean(),
    batchNorm: fc.boolean(),
    optimizers: fc.array(fc.oneof(fc.constantFrom(...OWN_KINDS), fc.constantFrom(...BUILT_IN_KINDS)), { minLength: 1, maxLength: 2 }),
    reloaded: fc.boolean(),
    everySteps: fc.integer({ min: 1, max: 4 }),
    phases: fc.array(phase, { minLength: 1, maxLength: 2 }),
    kills: fc.array(fc.integer({ min: 1, max: 14 }), { minLength: 1, maxLength: 2 }),
  })
  .map((given) => {
    // Ranks of one process cannot synchronise batch normalisation, and `model.fit`, which trains the exported model, draws random numbers anew.
    const program = {
      ...given,
      phases: given.phases.map((each) => settable(each, given.optimizers)),
      batchNorm: given.batchNorm && given.workers === 1,
      dropout: given.dropout && !given.reloaded,
      sampling: given.sampling && !given.reloaded,
    };
    if (program.strategy === 'all-reduce') {
      return program as ResumeProgram;
    }
    // With parameter servers, only one worker's result is independent of the timing. The servers reject custom classes.
    const optimizers = program.optimizers.map((kind) => ((BUILT_IN_KINDS as readonly string[]).includes(kind) ? kind : 'adam'));
    const phases = program.phases.map((each) => ({ ...each, restoreBest: false }));
    return { ...program, workers: 1, optimizers, phases } as ResumeProgram;
  });
