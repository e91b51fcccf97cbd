import * as z from 'zod';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { encodeMark, readMark } from './mark-file.ts';

const STOP_FILE = 'stop.json';

const schema = z.object({
  applicationId: z.string(),
  phase: z.string(),
  reason: z.string(),
  /** The step of the evaluated checkpoint, or the step whose callback requested the stop. */
  step: z.number().int().nonnegative(),
  /**
   * The last step of the phase, once all ranks have agreed on it; null until then. A run that resumes from an earlier checkpoint ends at
   * the same step.
   */
  at: z.number().int().nonnegative().nullable(),
});

/** An order to end a training phase before its last epoch. It applies to one application only. */
export type StopOrder = Readonly<z.infer<typeof schema>>;

/** Reads and writes `stop.json` in a checkpoint folder. An evaluator uses it to end the training run that writes the checkpoints. */
export class StopOrders {
  readonly #storage: Storage;
  readonly #uri: string;

  constructor(storage: Storage, checkpointDir: string) {
    this.#storage = storage;
    this.#uri = joinUri(checkpointDir, STOP_FILE);
  }

  /** Resolves with the order for this application and phase, or null if there is none. */
  async read(applicationId: string, phase: string): Promise<StopOrder | null> {
    const order = await readMark(this.#storage, this.#uri, schema);
    return order?.applicationId === applicationId && order.phase === phase ? order : null;
  }

  async give(order: StopOrder): Promise<void> {
    await this.#storage.write(this.#uri, encodeMark(order));
  }

  /** Removes an order left by another application. A standalone program also removes an order left by an earlier run. */
  async clear(applicationId: string): Promise<void> {
    const order = await readMark(this.#storage, this.#uri, schema);
    if (order !== null && (order.applicationId !== applicationId || applicationId === '')) {
      await this.#storage.remove(this.#uri);
    }
  }
}
