import type { PhaseProgress } from './phase-progress.ts';

/**
 * Predicts the step at which a phase ends. If the number of steps per epoch is not configured, uses the length of the last epoch that this
 * process ran from start to end.
 */
export class StepForecast {
  readonly #progress: PhaseProgress;
  readonly #limits: { readonly epochs: number; readonly steps: number };
  #stepsPerEpoch: number | null;
  /** The number of steps taken in the current epoch, or null if the process resumed within an epoch and the number is unknown. */
  #ofEpoch: number | null;

  /**
   * @param limits the maximum number of epochs and of steps in the phase; Infinity means no limit.
   * @param stepsOfEpoch the number of steps already taken in the current epoch, or null if unknown.
   */
  constructor(
    progress: PhaseProgress,
    limits: { readonly epochs: number; readonly steps: number },
    { stepsPerEpoch, stepsOfEpoch }: { readonly stepsPerEpoch: number | null; readonly stepsOfEpoch: number | null },
  ) {
    this.#progress = progress;
    this.#limits = limits;
    this.#stepsPerEpoch = stepsPerEpoch;
    this.#ofEpoch = stepsOfEpoch;
  }

  afterStep(endsEpoch: boolean): void {
    const taken = this.#ofEpoch === null ? null : this.#ofEpoch + 1;
    if (endsEpoch) {
      this.#stepsPerEpoch = taken ?? this.#stepsPerEpoch;
    }
    this.#ofEpoch = endsEpoch ? 0 : taken;
  }

  /** The expected total number of steps in all phases when this phase ends, or undefined while it is unknown. */
  get total(): number | undefined {
    const { step, globalStep, epoch } = this.#progress;
    const { epochs, steps } = this.#limits;
    const bySteps = steps - step;
    const byEpochs =
      Number.isFinite(epochs) && this.#stepsPerEpoch !== null ? (epochs - epoch) * this.#stepsPerEpoch - (this.#ofEpoch ?? 0) : Infinity;
    const left = Math.max(0, Math.min(bySteps, byEpochs));
    return Number.isFinite(left) ? globalStep + left : undefined;
  }
}
