import type { TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import type { CheckpointStore, OpenedCheckpoint } from '../../contract/checkpoint/checkpoint-store.ts';
import { TonyError } from '../../platform/errors.ts';

export type PhaseKind = 'fit' | 'loop';

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * The phases of one program. Each call to `fit` or `loop` that writes checkpoints is a phase. All phases write to the same folder, and
 * every checkpoint names its phase. Steps are counted across phases, so the checkpoint with the highest step is the newest.
 *
 * A restarted program begins the same phases in the same order. A completed phase restores its final checkpoint and returns immediately.
 * The interrupted phase resumes from its newest checkpoint, and later phases start from scratch. Final checkpoints are therefore kept while
 * the program runs.
 *
 * Every rank uses a phase as follows:
 *
 *   const phase = phases.begin('loop', name);
 *   // Rank 0 only, after store.retireOlderThan(origin):
 *   const found = await phase.newest(store, (opened) => store.readTensors(opened, names), onNotice);
 *   // Rank 0 then sends the position, or null, to every rank.
 *   if (position !== null) phase.resume(position);
 *   // If position.final is true, the phase is complete: restore the weights, call phase.end(position.step) and return.
 *   // Otherwise continue from step n = position.step - phase.start of this phase.
 *   // The checkpoint after step n has the position { step: phase.start + n, phase: phase.place, state, final, ... }.
 *   // If phase.isEmpty(step), do not write a checkpoint.
 *   phase.end(phase.start + n);   // after the final checkpoint is stored
 */
export class Phases {
  readonly #jobId: string;
  readonly #names = new Set<string>();
  readonly #counts = new Map<PhaseKind, number>();
  readonly #ends = new Set<number>();
  #steps = 0;
  #running: Phase | null = null;

  /** @param jobId the application ID, or '' for a standalone program. */
  constructor(jobId: string) {
    this.#jobId = jobId;
  }

  /**
   * Begins the next phase. Every rank must begin the same phases in the same order.
   * @param name Default: the kind followed by a number that counts the phases of this kind, for example `fit-2`.
   * @throws TonyError USAGE if the name is invalid or already used.
   */
  begin(kind: PhaseKind, name?: string): Phase {
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    const own = name ?? `${kind}-${count}`;
    if (typeof own !== 'string' || !NAME.test(own)) {
      throw new TonyError('USAGE', `${JSON.stringify(own)} is not a valid name for a training phase`, {
        hint: 'Use up to 64 letters, digits, dots, dashes and underscores.',
      });
    }
    if (this.#names.has(own)) {
      throw new TonyError('USAGE', `this program already has a training phase named ${own}`, {
        hint: 'Give each call of fit a different name, or no name.',
      });
    }
    this.#names.add(own);
    const phase = new Phase(own, this.#steps, this.#jobId, {
      kept: this.#ends,
      onEnd: (step) => {
        this.#ends.add(step);
        this.#steps = step;
        this.#running = this.#running === phase ? null : this.#running;
      },
    });
    this.#running = phase;
    return phase;
  }

  /** Returns a phase that does not write checkpoints. A restarted program repeats the phase from the beginning. */
  unkept(): Phase {
    return new Phase('unkept', this.#steps, this.#jobId, { kept: this.#ends, onEnd: () => {} });
  }

  get count(): number {
    return this.#names.size;
  }

  /** The phase that began most recently, or null if that phase has ended. */
  get running(): Phase | null {
    return this.#running;
  }
}

interface PhaseProgram {
  /** Steps of the completed phases' final checkpoints, which pruning must keep. */
  readonly kept: ReadonlySet<number>;
  readonly onEnd: (step: number) => void;
}

export class Phase {
  readonly name: string;
  readonly #jobId: string;
  readonly #program: PhaseProgram;
  #start: number;

  constructor(name: string, start: number, jobId: string, program: PhaseProgram) {
    this.name = name;
    this.#start = start;
    this.#jobId = jobId;
    this.#program = program;
  }

  /** Number of steps taken by earlier phases. */
  get start(): number {
    return this.#start;
  }

  get place(): TrainingPosition['phase'] {
    return { name: this.name, start: this.#start };
  }

  get kept(): ReadonlySet<number> {
    return this.#program.kept;
  }

  /**
   * Finds this phase's newest intact checkpoint. Skips damaged checkpoints, and reports them to `onNotice`. Also skips checkpoints from a
   * run in which the earlier phases took a different number of steps.
   * @param use reads the parts of a checkpoint that are needed.
   * @returns the result of `use`, and the position, which rank 0 must send to all ranks. `position.final` is true only if this application
   * has completed the phase.
   * @throws TonyError CHECKPOINT_MISMATCH with the phase's name.
   */
  async newest<T>(
    store: CheckpointStore,
    use: (opened: OpenedCheckpoint) => Promise<T>,
    onNotice: (message: string) => void,
  ): Promise<{ readonly value: T; readonly uri: string; readonly position: TrainingPosition } | null> {
    let strayed = false;
    return await store.newestThat(async (opened) => {
      const { uri, position } = opened;
      const { name, start } = position.phase;
      if (name !== this.name) {
        return null;
      }
      if (start !== this.#start) {
        if (!strayed) {
          onNotice(`${uri} is not used: its phase ${name} began at step ${start}, but now begins at step ${this.#start}`);
        }
        strayed = true;
        return null;
      }
      return { value: await this.#naming(() => use(opened)), uri, position: { ...position, final: this.isOver(opened) } };
    }, onNotice);
  }

  /**
   * Returns true if this application has completed the phase. Other applications, and standalone programs, continue training from a final
   * checkpoint.
   */
  isOver({ position, manifest }: OpenedCheckpoint): boolean {
    return position.final && this.#jobId !== '' && manifest.jobId === this.#jobId;
  }

  async #naming<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof TonyError && error.code === 'CHECKPOINT_MISMATCH') {
        throw new TonyError('CHECKPOINT_MISMATCH', `phase ${this.name}: ${error.message}`, {
          hint: 'By default, phases are numbered in the order in which the program calls fit and loop. Restore the earlier order of the calls, or set another checkpoint.dir.',
          cause: error,
        });
      }
      throw error;
    }
  }

  noticeOf({ uri, position }: { readonly uri: string; readonly position: TrainingPosition }): string {
    const { step, final } = position;
    return final ? `phase ${this.name} is already complete: restored from ${uri}` : `training resumes from ${uri}, step ${step}`;
  }

  /** Continues the phase from a checkpoint's position. Must be called on every rank. */
  resume({ phase }: TrainingPosition): void {
    this.#start = phase.start;
  }

  /** Returns true if the phase has taken no steps. A checkpoint of such a phase would replace the previous phase's final checkpoint. */
  isEmpty(step: number): boolean {
    return step === this.#start && step > 0;
  }

  /**
   * Ends the phase. Must be called on every rank after the final checkpoint is stored.
   * @param step the last step, counted across all phases.
   */
  end(step: number): void {
    this.#program.onEnd(step);
  }
}
