import { z } from 'zod';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';

const STOP_FILE = 'stop.json';

const schema = z.object({
  applicationId: z.string(),
  reason: z.string(),
  step: z.number().int().nonnegative(),
  at: z.number().int().nonnegative().nullable(),
});

/** That training is to end before its last epoch. Only the application that it names obeys it. */
export interface StopOrder {
  readonly applicationId: string;
  readonly reason: string;
  /** Of the checkpoint that was judged, or the step whose callback asked for it. */
  readonly step: number;
  /** The last step, once all ranks have agreed on it; a run that goes on from an earlier checkpoint ends there, too. */
  readonly at: number | null;
}

/** The file `stop.json` in a checkpoint folder, by which an evaluator ends the training that it watches. */
export class StopOrders {
  readonly #storage: Storage;
  readonly #uri: string;

  constructor(storage: Storage, checkpointDir: string) {
    this.#storage = storage;
    this.#uri = joinUri(checkpointDir, STOP_FILE);
  }

  /** null when there is none, or one for another application. */
  async read(applicationId: string): Promise<StopOrder | null> {
    const order = await this.#read();
    return order?.applicationId === applicationId ? order : null;
  }

  async give(order: StopOrder): Promise<void> {
    await this.#storage.write(this.#uri, Buffer.from(`${JSON.stringify(order)}\n`));
  }

  /** Removes what other applications (or, by itself, an earlier run) have left. */
  async clear(applicationId: string): Promise<void> {
    const order = await this.#read();
    if (order !== null && (order.applicationId !== applicationId || applicationId === '')) {
      await this.#storage.remove(this.#uri);
    }
  }

  async #read(): Promise<StopOrder | null> {
    if ((await this.#storage.stat(this.#uri)) === null) {
      return null;
    }
    try {
      return schema.safeParse(JSON.parse((await this.#storage.read(this.#uri)).toString('utf8'))).data ?? null;
    } catch (error) {
      if (error instanceof SyntaxError) {
        return null;
      }
      throw error;
    }
  }
}
