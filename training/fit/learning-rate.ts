import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import { learningRateOf, nameOfOptimizer, setLearningRate } from '../optimizer/optimizer-members.ts';

export interface ScheduleStep {
  /** The number of steps that this `fit` call has taken, including the steps before a restart. */
  readonly step: number;
  readonly epoch: number;
  /** The number of ranks in this generation. It may change when an elastic job restarts. */
  readonly worldSize: number;
  /** The learning rate with which the program created the optimizer. */
  readonly initial: number;
}

/**
 * A rate, or a function that returns the rate for a step. All ranks must get the same rate, so the function must depend only on its
 * argument.
 */
export type LearningRate = number | ((at: ScheduleStep) => number);

/** Sets an optimizer's learning rate before each step. */
export class LearningRateSchedule {
  readonly #rate: LearningRate;
  readonly #optimizer: tfjs.Optimizer;
  readonly #initial: number;
  /**
   * The rate last set by this schedule. It may differ from the optimizer's `learningRate`: sgd and momentum use a tensor, which only
   * setLearningRate() replaces.
   */
  #applied: number | null = null;

  /** @throws TonyError MODEL_INVALID if the optimizer has no learning rate. */
  constructor(rate: LearningRate, optimizer: tfjs.Optimizer) {
    this.#rate = rate;
    this.#optimizer = optimizer;
    this.#initial = learningRateOf(optimizer);
    if (typeof this.#initial !== 'number') {
      throw new TonyError('MODEL_INVALID', `the optimizer ${nameOfOptimizer(optimizer)} has no learning rate that fit can set`);
    }
  }

  apply(at: Omit<ScheduleStep, 'initial'>): void {
    const rate = typeof this.#rate === 'number' ? this.#rate : this.#rate({ ...at, initial: this.#initial });
    if (typeof rate !== 'number' || !Number.isFinite(rate)) {
      throw new TonyError('USAGE', `learningRate returned ${rate} for step ${at.step}, but must return a number`);
    }
    if (rate !== this.#applied || rate !== learningRateOf(this.#optimizer)) {
      this.#set(rate);
    }
  }

  /** Restores the initial rate, in case the optimizer is used again. */
  restore(): void {
    if (learningRateOf(this.#optimizer) !== this.#initial) {
      this.#set(this.#initial);
    }
  }

  #set(rate: number): void {
    setLearningRate(this.#optimizer, rate);
    this.#applied = rate;
  }
}
