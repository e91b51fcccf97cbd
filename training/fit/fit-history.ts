import * as z from 'zod';
import type { Json } from '../../platform/json-value.ts';
import { EpochMeans, type MeansSoFar } from './epoch-means.ts';
import type { BestEpoch } from './state/best-weights.ts';

/**
 * The equivalent of the History that tf.LayersModel.fit returns. Contains one entry for each epoch that completed or ended early,
 * including epochs before a restart.
 */
export interface FitHistory {
  readonly epoch: readonly number[];
  readonly history: Readonly<Record<string, readonly number[]>>;
  /** The number of steps that this call has taken, including the steps before a restart. */
  readonly steps: number;
  /** Why training ended before its last epoch, or null if all epochs ran. */
  readonly endedEarly: string | null;
  /** With `restoreBest`, the epoch whose weights the model has. Null if no epoch had a comparable value. */
  readonly best?: BestEpoch | null;
}

/** A number. NaN and infinite numbers, which JSON cannot represent, are stored as null. */
const value = z.number().nullable();

const stored = z.object({
  epoch: z.array(z.number()),
  logs: z.record(z.string(), z.array(value)),
  current: z.object({ epoch: z.number(), sums: z.array(value), seen: z.number() }).nullable(),
  endedEarly: z.string().nullable(),
});

/** The epoch that was incomplete when the checkpoint was written. The history does not contain its values yet. */
export interface OpenEpoch extends MeansSoFar {
  readonly epoch: number;
}

/** The history returned by `fit`. Checkpoints store the history, so that it still includes the earlier epochs after a restart. */
export class HistorySoFar {
  readonly epoch: number[] = [];
  readonly logs: Record<string, number[]>;
  /** Why training ended before its last epoch, or null if all epochs ran. */
  endedEarly: string | null = null;
  #open: OpenEpoch | null = null;
  #running: { readonly epoch: number; readonly means: EpochMeans } | null = null;

  constructor(names: readonly string[]) {
    this.logs = Object.fromEntries(names.map((name) => [name, []]));
  }

  /**
   * Begins an epoch. If the restored checkpoint was written during this epoch, continues with the sums that it contains.
   * @param count the number of values per step.
   */
  begin(epoch: number, count: number): EpochMeans {
    const means = new EpochMeans(count, this.#open?.epoch === epoch ? this.#open : null);
    this.#running = { epoch, means };
    return means;
  }

  /** Frees the epoch's tensors. Call `end` after the epoch has ended or failed. */
  end(): void {
    this.#running?.means.dispose();
    this.#running = null;
  }

  add(epoch: number, logs: Readonly<Record<string, number>>): void {
    this.epoch.push(epoch);
    for (const [name, number] of Object.entries(logs)) {
      this.logs[name]?.push(number);
    }
  }

  toJson(): Json {
    const { epoch, logs, endedEarly } = this;
    const current = this.#running === null ? null : { epoch: this.#running.epoch, ...this.#running.means.soFar() };
    return JSON.parse(JSON.stringify({ epoch, logs, current, endedEarly })) as Json;
  }

  /** Restores the history from the output of `toJson`. Drops metrics that the current model does not have. */
  restore(json: Json | undefined): void {
    const found = stored.safeParse(json);
    if (!found.success) {
      return;
    }
    const { epoch, logs, current, endedEarly } = found.data;
    this.epoch.splice(0, this.epoch.length, ...epoch);
    for (const [name, own] of Object.entries(this.logs)) {
      own.splice(0, own.length, ...(logs[name] ?? []).map(numberOf));
    }
    this.#open = current === null ? null : { ...current, sums: current.sums.map(numberOf) };
    this.endedEarly = endedEarly;
  }

  /** The epoch during which the restored checkpoint was written, or null if it was written between epochs. */
  get open(): OpenEpoch | null {
    return this.#open;
  }
}

function numberOf(stored: number | null): number {
  return stored ?? Number.NaN;
}
