import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../conf/errors.ts';

/** Where training stands before a step. */
export interface ScheduleStep {
  /** Steps that have been taken since the very beginning. */
  readonly step: number;
  readonly epoch: number;
  /** Of this generation: it may differ after a restart when the job is elastic. */
  readonly worldSize: number;
  /** What the optimizer was made with. */
  readonly initial: number;
}

/** A rate, or what it is before each step. The same on all ranks: it shall depend on nothing but what it is given. */
export type LearningRate = number | ((at: ScheduleStep) => number);

/** Fields that TensorFlow.js's declarations do not show. */
interface Rated {
  learningRate?: number;
  setLearningRate?(rate: number): void;
}

/** Sets an optimizer's learning rate from step to step. */
export class LearningRateSchedule {
  readonly #rate: LearningRate;
  readonly #optimizer: Rated;
  readonly #initial: number;

  /** @throws TonyError MODEL_INVALID when the optimizer has no learning rate. */
  constructor(rate: LearningRate, optimizer: tfjs.Optimizer) {
    this.#rate = rate;
    this.#optimizer = optimizer as unknown as Rated;
    const { learningRate } = this.#optimizer;
    if (typeof learningRate !== 'number') {
      throw new TonyError('MODEL_INVALID', `the optimizer ${optimizer.getClassName()} has no learning rate that fit could set`);
    }
    this.#initial = learningRate;
  }

  apply(at: Omit<ScheduleStep, 'initial'>): void {
    const rate = typeof this.#rate === 'number' ? this.#rate : this.#rate({ ...at, initial: this.#initial });
    if (typeof rate !== 'number' || !Number.isFinite(rate)) {
      throw new TonyError('USAGE', `learningRate gives ${rate} for step ${at.step}; it must be a number`);
    }
    if (rate === this.#optimizer.learningRate) {
      return;
    }
    // sgd and momentum step by a tensor that this replaces.
    if (this.#optimizer.setLearningRate !== undefined) {
      this.#optimizer.setLearningRate(rate);
    } else {
      this.#optimizer.learningRate = rate;
    }
  }

  /** As it was before, for whoever uses the optimizer again. */
  restore(): void {
    if (this.#optimizer.learningRate !== this.#initial) {
      if (this.#optimizer.setLearningRate !== undefined) {
        this.#optimizer.setLearningRate(this.#initial);
      } else {
        this.#optimizer.learningRate = this.#initial;
      }
    }
  }
}
