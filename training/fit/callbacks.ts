import type * as tfjs from '@tensorflow/tfjs';

export type EpochLogs = Readonly<Record<string, number>>;

export function logsOf(names: readonly string[], values: readonly number[], prefix = ''): Record<string, number> {
  return Object.fromEntries(names.map((name, index) => [`${prefix}${name}`, values[index] ?? 0]));
}

/** Loss and metrics of a batch by name, averaged over all ranks. The first access to a value reads it from the backend. */
export interface BatchLogs {
  /** The zero-based batch index within the epoch. */
  readonly batch: number;
  /** The number of steps that this `fit` has taken, including this step and the steps before a restart. */
  readonly step: number;
  /** The number of examples in the batch, summed over all ranks. */
  readonly size: number;
  readonly [metric: string]: number;
}

/**
 * Callbacks as for `model.fit`: `tf.callbacks.earlyStopping()`, `new tf.CustomCallback({...})`, or a plain object. Every rank calls them
 * with the same values. Setting `model.stopTraining = true` in any callback on any rank ends training on all ranks after the same step.
 */
export interface FitCallbacks {
  setParams?(params: Record<string, number | string | boolean | string[]>): void;
  setModel?(model: tfjs.LayersModel): void;
  onTrainBegin?(logs: EpochLogs): void | Promise<void>;
  onTrainEnd?(logs: EpochLogs): void | Promise<void>;
  /** @param epoch the zero-based epoch index. */
  onEpochBegin?(epoch: number, logs: EpochLogs): void | Promise<void>;
  /** @param logs means over the epoch, including `val_...` if there is validation data. */
  onEpochEnd?(epoch: number, logs: EpochLogs): void | Promise<void>;
  /** @param batch the zero-based index within the epoch. */
  onBatchBegin?(batch: number, logs: EpochLogs): void | Promise<void>;
  /** @param batch the zero-based index within the epoch; `logs.step` continues across epochs. */
  onBatchEnd?(batch: number, logs: BatchLogs): void | Promise<void>;
}

/** Calls several callbacks in order. */
export class CallbackList {
  readonly #callbacks: readonly FitCallbacks[];

  constructor(callbacks: FitCallbacks | readonly FitCallbacks[] | undefined) {
    this.#callbacks = callbacks === undefined ? [] : Array.isArray(callbacks) ? callbacks : [callbacks as FitCallbacks];
  }

  setModel(model: tfjs.LayersModel, params: Record<string, number | string | boolean | string[]>): void {
    for (const callback of this.#callbacks) {
      callback.setParams?.(params);
      callback.setModel?.(model);
    }
  }

  /** Calls a method of each callback, one after another. */
  async each(call: (callback: FitCallbacks) => void | Promise<void>): Promise<void> {
    for (const callback of this.#callbacks) {
      await call(callback);
    }
  }

  /** @param names the names of the values that `read` returns. Accessing a value calls `read`. */
  async batchEnd(
    at: { readonly batch: number; readonly step: number; readonly size: number },
    names: readonly string[],
    read: () => readonly number[],
  ): Promise<void> {
    await this.each((callback) => callback.onBatchEnd?.(at.batch, lazyLogs(at, names, read)));
  }
}

/**
 * Creates an object that calls `read` when a value is accessed. Reading the values in each step would make training wait for the backend.
 */
function lazyLogs(at: object, names: readonly string[], read: () => readonly number[]): BatchLogs {
  const logs = { ...at };
  names.forEach((name, index) => {
    Object.defineProperty(logs, name, { enumerable: true, configurable: true, get: () => read()[index] ?? 0 });
  });
  // Makes console.log print the values instead of [Getter].
  Object.defineProperty(logs, Symbol.for('nodejs.util.inspect.custom'), { value: () => ({ ...logs }) });
  return logs as BatchLogs;
}
