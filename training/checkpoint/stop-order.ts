import * as z from 'zod';
import { encodeMark, readMark } from '../../contract/checkpoint/checkpoint-marks.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';

const STOP_FILE = 'stop.json';

const schema = z.object({
  jobId: z.string(),
  phase: z.string(),
  reason: z.string(),
  /** The evaluated checkpoint's step, or the step in which a callback requested the stop. */
  step: z.number().int().nonnegative(),
  /**
   * Last step of the phase, or null until all ranks have agreed on it. A run that resumes from an earlier checkpoint ends at the same step.
   */
  at: z.number().int().nonnegative().nullable(),
});

/** An order to end a training phase before its last epoch. It applies to only one phase of one application. */
export type StopOrder = Readonly<z.infer<typeof schema>>;

/**
 * Reads and writes `stop.json` in a checkpoint folder. Through this file, an evaluator ends the training run whose checkpoints it
 * evaluates.
 */
export class StopOrders {
  readonly #storage: Storage;
  readonly #uri: string;

  constructor(storage: Storage, checkpointDir: string) {
    this.#storage = storage;
    this.#uri = joinUri(checkpointDir, STOP_FILE);
  }

  /** Resolves with the order for this phase of this application, or null if there is no such order. */
  async read(jobId: string, phase: string): Promise<StopOrder | null> {
    const order = await readMark(this.#storage, this.#uri, schema);
    return order?.jobId === jobId && order.phase === phase ? order : null;
  }

  async give(order: StopOrder): Promise<void> {
    await this.#storage.write(this.#uri, encodeMark(order));
  }

  /** Removes an order left behind by another application. In a standalone program, removes any order. */
  async clear(jobId: string): Promise<void> {
    const order = await readMark(this.#storage, this.#uri, schema);
    if (order !== null && (order.jobId !== jobId || jobId === '')) {
      await this.#storage.remove(this.#uri);
    }
  }
}
