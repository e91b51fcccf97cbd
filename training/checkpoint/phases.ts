import { TonyError } from '../../platform/errors.ts';
import type { TrainingPosition } from './checkpoint-format.ts';
import type { CheckpointStore, OpenedCheckpoint } from './checkpoint-store.ts';

export type PhaseKind = 'fit' | 'loop';

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * The phases of one program. Each call to `fit` or `loop` that writes checkpoints is a phase. All phases write to the same checkpoint
 * folder. Steps are numbered consecutively across phases, so the checkpoint with the highest number is always the newest. Every checkpoint
 * names its phase.
 *
 * A restarted program runs from its beginning and begins the same phases in the same order. A completed phase is restored from its final
 * checkpoint and returns immediately. The interrupted phase resumes from its newest checkpoint, and later phases start from scratch. Final
 * checkpoints are therefore kept while the program runs.
 *
 * A loop uses a phase as follows, on every rank unless noted otherwise:
 *
 *   const phase = phases.begin('loop', name);
 *   // Only on rank 0, after store.retireOlderThan(origin):
 *   const found = await phase.newest(store, (opened) => store.readTensors(opened, names), onNotice);
 *   // Send the position (or null) to every rank:
 *   if (position !== null) phase.resume(position);
 *   // If position.final, the phase is complete: restore, call phase.end(position.step) and return. Otherwise continue from step
 *   // position.step - phase.start. The position of a checkpoint after `n` steps is { step: phase.start + n, phase: phase.place, state,
 *   // final, ... }. The writer of open-checkpoint-writer.ts keeps the checkpoints that phases need. Write no checkpoint for a phase
 *   // without steps (phase.isEmpty(step)).
 *   phase.end(phase.start + n);   // after the final checkpoint is stored
 */
export class Phases {
  readonly #applicationId: string;
  readonly #names = new Set<string>();
  readonly #counts = new Map<PhaseKind, number>();
  readonly #ends = new Set<number>();
  #steps = 0;
  #running: Phase | null = null;

  /** @param applicationId empty for a standalone program. */
  constructor(applicationId: string) {
    this.#applicationId = applicationId;
  }

  /**
   * Begins the next phase. Every rank must begin the same phases in the same order.
   * @param name Default: the kind and a counter for each kind, for example `fit-2`.
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
    const phase = new Phase(own, this.#steps, this.#applicationId, {
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

  /**
   * Returns a phase without checkpoints, which a restarted program trains again from scratch. The program's list of phases does not include
   * it.
   */
  unkept(): Phase {
    return new Phase('unkept', this.#steps, this.#applicationId, { kept: this.#ends, onEnd: () => {} });
  }

  get count(): number {
    return this.#names.size;
  }

  /** The phase that began last; null if it has ended. */
  get running(): Phase | null {
    return this.#running;
  }
}

interface PhaseProgram {
  /** The steps of the final checkpoints of completed phases, which pruning must keep. */
  readonly kept: ReadonlySet<number>;
  readonly onEnd: (step: number) => void;
}

export class Phase {
  readonly name: string;
  readonly #applicationId: string;
  readonly #program: PhaseProgram;
  #start: number;

  constructor(name: string, start: number, applicationId: string, program: PhaseProgram) {
    this.name = name;
    this.#start = start;
    this.#applicationId = applicationId;
    this.#program = program;
  }

  /** The number of steps that earlier phases have taken. */
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
   * Finds this phase's newest intact checkpoint. Skips damaged checkpoints, and checkpoints in which the phase starts at a different step
   * (because earlier phases took a different number of steps). Reports skipped checkpoints to `onNotice`.
   * @param use reads the required parts of a checkpoint. If `use` throws because the checkpoint is damaged, the search continues with the
   *   next older checkpoint.
   * @returns the result of `use` and the position to share with all ranks. `final` is true only if this application has completed the
   *   phase.
   * @throws TonyError CHECKPOINT_MISFIT with the name of the phase.
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
   * Returns true if this application has completed the phase. Other applications and standalone programs continue from a final checkpoint.
   */
  isOver({ position, manifest }: OpenedCheckpoint): boolean {
    return position.final && this.#applicationId !== '' && manifest.applicationId === this.#applicationId;
  }

  async #naming<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof TonyError && error.code === 'CHECKPOINT_MISFIT') {
        throw new TonyError('CHECKPOINT_MISFIT', `phase ${this.name}: ${error.message}`, {
          hint: 'A checkpoint names its phase; by default, phases are numbered in the order of the calls. Restore the earlier phases of the program, or set another checkpoint.dir.',
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

  /** Continues the phase from the position of a checkpoint. Call it on every rank. */
  resume({ phase }: TrainingPosition): void {
    this.#start = phase.start;
  }

  /**
   * Returns true if the phase has taken no steps. Such a phase writes no checkpoint, because it would replace the previous phase's final
   * checkpoint.
   */
  isEmpty(step: number): boolean {
    return step === this.#start && step > 0;
  }

  /** Ends the phase. Call it on every rank after the final checkpoint is stored. @param step the last step, counted across all phases. */
  end(step: number): void {
    this.#program.onEnd(step);
  }
}
