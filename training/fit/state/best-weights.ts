import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import { BestSoFar, modeOf } from '../../checkpoint/best-so-far.ts';
import type { CompiledModel } from '../../model/compiled-model.ts';
import type { NamedVariable } from '../../model/stored-tensors.ts';

/**
 * Which weights the model has after training: those of the epoch with the best value of `monitor`. `true` monitors `val_loss`, or `loss`
 * without validation data.
 */
export type RestoreBest = boolean | string | { readonly monitor: string; readonly mode?: 'min' | 'max' };

/** The best epoch so far. */
export interface BestEpoch {
  /** The zero-based epoch index. */
  readonly epoch: number;
  readonly monitor: string;
  readonly value: number;
}

/** Keeps a copy of the weights after the best epoch. */
export class BestWeights {
  readonly #tf: typeof tfjs;
  readonly #model: CompiledModel;
  readonly #monitor: string;
  readonly #mode: 'min' | 'max';
  readonly #copies: readonly NamedVariable[];
  #search: BestSoFar;
  best: BestEpoch | null = null;

  /**
   * @param names the names of the values that `fit` computes for each epoch.
   * @throws TonyError USAGE if `fit` does not compute the monitored value.
   */
  constructor(tf: typeof tfjs, model: CompiledModel, options: Exclude<RestoreBest, false>, names: readonly string[]) {
    const given: { readonly monitor?: string; readonly mode?: 'min' | 'max' } =
      typeof options === 'string' ? { monitor: options } : options === true ? {} : options;
    this.#monitor = given.monitor ?? (names.includes('val_loss') ? 'val_loss' : 'loss');
    if (!names.includes(this.#monitor)) {
      throw new TonyError('USAGE', `restoreBest monitors ${this.#monitor}, which fit does not compute`, {
        hint: `Use one of ${names.join(', ')}.`,
      });
    }
    this.#tf = tf;
    this.#model = model;
    this.#mode = given.mode ?? modeOf(this.#monitor);
    this.#search = new BestSoFar({ mode: this.#mode, patience: null, minDelta: 0 }, null);
    this.#copies = model.weights.map(({ variable }, index) => {
      return { name: `best:${index}`, variable: variable.clone().variable(false) };
    });
  }

  get variables(): readonly NamedVariable[] {
    return this.#copies;
  }

  /** Continues after a restart. The variables are restored separately. */
  resume(best: BestEpoch | null): void {
    this.best = best;
    this.#search = new BestSoFar({ mode: this.#mode, patience: null, minDelta: 0 }, best?.value ?? null);
  }

  /** Copies the weights if the epoch is the best so far. */
  add(epoch: number, logs: Readonly<Record<string, number>>): void {
    const value = logs[this.#monitor] ?? Number.NaN;
    if (this.#search.add(value).isBest) {
      this.best = { epoch, monitor: this.#monitor, value };
      this.#copy((weight, copy) => copy.assign(weight.clone()));
    }
  }

  /** Assigns the best weights to the model. */
  restore(): void {
    if (this.best !== null) {
      this.#copy((weight, copy) => weight.assign(copy.clone()));
    }
  }

  #copy(assign: (weight: tfjs.Variable, copy: tfjs.Variable) => void): void {
    this.#tf.tidy(() => {
      for (const [index, { variable }] of this.#model.weights.entries()) {
        assign(variable, (this.#copies[index] as NamedVariable).variable);
      }
    });
  }

  dispose(): void {
    for (const { variable } of this.#copies) {
      variable.dispose();
    }
  }
}
