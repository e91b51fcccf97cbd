import { SummaryWriter } from '../../contract/summary/summary.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';

/** Time (ms) for which the end of a failed program waits until its last values are stored. */
const FAILED_FINISH_MS = 3_000;

export interface ReportedCurvesOptions {
  readonly open: () => Storage;
  /** URI of the job's summary folder. */
  readonly dir: string;
  /** Name of the run, which TensorBoard and the job's page show. */
  readonly run: string;
  readonly generation: number;
  readonly onTrouble: (message: string, about?: string) => void;
}

/**
 * Writes the metrics that a program reports as summaries, so that the job's page and TensorBoard draw them as curves. TypeScript programs
 * write their summaries themselves. Opens the storage with the first value.
 */
export class ReportedCurves {
  readonly #options: ReportedCurvesOptions;
  #storage: Storage | null = null;
  #writer: SummaryWriter | null = null;

  constructor(options: ReportedCurvesOptions) {
    this.#options = options;
  }

  add(step: number, metrics: Readonly<Record<string, number>>): void {
    try {
      this.#writer ??= this.#begin(step);
      this.#writer.scalars(metrics, step);
    } catch (error) {
      this.#options.onTrouble(`reported values are not drawn as curves: ${messageOf(error)}`, 'curves');
    }
  }

  /** Stores the remaining values. Never rejects. */
  async finish(succeeded: boolean): Promise<void> {
    await this.#writer?.finish(succeeded ? undefined : FAILED_FINISH_MS);
    this.#storage?.close();
  }

  #begin(step: number): SummaryWriter {
    const { open, dir, run, generation, onTrouble } = this.#options;
    this.#storage = open();
    const writer = new SummaryWriter({ storage: this.#storage, dir: joinUri(dir, run), onTrouble });
    if (generation > 1) {
      // The program has resumed from a checkpoint, so it repeats steps of the generation before.
      writer.resumeFrom(step);
    }
    return writer;
  }
}
