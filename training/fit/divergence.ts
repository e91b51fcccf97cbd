import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import type { OnNaN } from './fit-options.ts';

export const DIVERGED_HINT = 'Lower the learning rate, clip the gradients (clipNorm), or check the data for NaN.';

interface DivergenceOptions {
  readonly phase: string;
  /**
   * True on the rank that prints the warning about divergence. Ranks that step together get the same loss, so one warning is sufficient.
   */
  readonly reports: boolean;
  readonly onNotice: (message: string) => void;
}

/** Detects NaN or infinite values in the loss or the weights. Every rank gets the same result. */
export class Divergence {
  readonly #tf: typeof tfjs;
  readonly #variables: readonly tfjs.Variable[];
  readonly #onNaN: OnNaN;
  readonly #options: DivergenceOptions;
  #hasReported = false;
  #lossIsBad = false;

  constructor(tf: typeof tfjs, variables: readonly tfjs.Variable[], onNaN: OnNaN, options: DivergenceOptions) {
    this.#tf = tf;
    this.#variables = variables;
    this.#onNaN = onNaN;
    this.#options = options;
  }

  /**
   * Checks a step's loss.
   * @throws TonyError TRAINING_DIVERGED, unless `onNaN` is `continue`.
   */
  checkLoss(loss: number | undefined, step: number): void {
    this.#lossIsBad = loss !== undefined && !Number.isFinite(loss);
    if (this.#lossIsBad) {
      this.#report(`the loss is ${loss} at step ${step}`);
    }
  }

  /**
   * Checks the weights after a step, before a checkpoint is written.
   * @returns true if the weights and the last checked loss are finite, so a checkpoint may be written.
   * @throws TonyError TRAINING_DIVERGED, unless `onNaN` is `continue`.
   */
  checkWeights(step: number): boolean {
    const bad = this.#firstBadWeight();
    if (bad !== null) {
      this.#report(`weight ${bad} is NaN or infinite after step ${step}`);
    }
    return bad === null && !this.#lossIsBad;
  }

  #firstBadWeight(): string | null {
    const tf = this.#tf;
    // Infinity * 0 is NaN, and a sum that contains NaN is NaN. Every backend implements these operations.
    const sums = this.#variables.map((variable) => tf.tidy(() => tf.sum(tf.mul(variable, 0))));
    const zeros = tf.tidy(() => tf.stack(sums).dataSync());
    tf.dispose(sums);
    const bad = zeros.findIndex((value) => !Number.isFinite(value));
    return bad < 0 ? null : (this.#variables[bad] as tfjs.Variable).name;
  }

  #report(what: string): void {
    const { phase, reports, onNotice } = this.#options;
    const stops = this.#onNaN === 'stop';
    if (!this.#hasReported && reports) {
      const outcome = stops ? 'training stops' : 'training continues, without checkpoints until all values are finite';
      onNotice(`training has diverged: ${what} (phase ${phase}); ${outcome}. ${DIVERGED_HINT}`);
    }
    this.#hasReported = true;
    if (stops) {
      throw new TonyError('TRAINING_DIVERGED', `phase ${phase}: ${what}`);
    }
  }
}
