import type { TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import type { Phase } from '../checkpoint/phases.ts';

export class PhaseProgress {
  readonly #phase: Phase;
  #step = 0;
  #epoch: number;
  #examples = 0;
  #seed: number;

  /** @param epoch the first epoch if the phase starts without a checkpoint. */
  constructor(phase: Phase, seed: number, epoch = 0) {
    this.#phase = phase;
    this.#seed = seed;
    this.#epoch = epoch;
  }

  /** The number of steps taken in this phase. */
  get step(): number {
    return this.#step;
  }

  /** The number of steps taken in all phases of the program. Checkpoints, summaries and reports to the job are numbered with this count. */
  get globalStep(): number {
    return this.#phase.start + this.#step;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** The total number of examples that the ranks have used in the current epoch. */
  get examples(): number {
    return this.#examples;
  }

  /** The seed with which the phase started. A resumed phase keeps this seed. */
  get seed(): number {
    return this.#seed;
  }

  get position(): Pick<TrainingPosition, 'step' | 'phase' | 'epoch' | 'examples' | 'seed'> {
    return { step: this.globalStep, phase: this.#phase.place, epoch: this.#epoch, examples: this.#examples, seed: this.#seed };
  }

  resume(position: TrainingPosition): void {
    this.#phase.resume(position);
    this.#step = position.step - position.phase.start;
    this.#epoch = position.epoch;
    this.#examples = position.examples;
    this.#seed = position.seed;
  }

  /**
   * Adds a completed step.
   * @param examples the number of examples in the step, summed over all ranks.
   */
  advance(examples: number, endsEpoch: boolean): void {
    this.#step++;
    this.#epoch += endsEpoch ? 1 : 0;
    this.#examples = endsEpoch ? 0 : this.#examples + examples;
  }

  /** Returns true if the number of steps makes a checkpoint due. The time between checkpoints is the matter of CheckpointTimer. */
  isCheckpointDue(checkpoints: { readonly everySteps: number | null } | null): boolean {
    const everySteps = checkpoints?.everySteps ?? 0;
    return everySteps > 0 && this.#step % everySteps === 0;
  }

  /** Marks the phase as finished. Call `end` after the final checkpoint has been stored. */
  end(): void {
    this.#phase.end(this.globalStep);
  }
}
