import type * as tfjs from '@tensorflow/tfjs';

export type EpochLogs = Readonly<Record<string, number>>;

export function logsOf(names: readonly string[], values: readonly number[], prefix = ''): Record<string, number> {
  return Object.fromEntries(names.map((name, index) => [`${prefix}${name}`, values[index] ?? 0]));
}

/** A batch's loss and metrics, averaged over all ranks. The first read of each value waits for the backend. */
export interface BatchLogs {
  /** The zero-based batch index within the epoch. */
  readonly batch: number;
  /** The number of steps that this `fit` call has taken, including this step and the steps before a restart. */
  readonly step: number;
  /** The number of examples in the batch, summed over all ranks. */
  readonly size: number;
  readonly [metric: string]: number;
}

/**
 * Callbacks in the form that `model.fit` accepts: `tf.callbacks.earlyStopping()`, `new tf.CustomCallback({...})`, or a plain object. Every
 * rank calls its callbacks with the same values. If a callback on any rank sets `model.stopTraining = true`, training ends on all ranks
 * after the same step.
 *
 * Training continues only when the callback's promise has resolved, so a callback must not wait for a checkpoint of its own training: the
 * ranks complete a checkpoint only while they take further steps.
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
  /** @param batch the zero-based index within the epoch; `logs.step` is not reset between epochs. */
  onBatchEnd?(batch: number, logs: BatchLogs): void | Promise<void>;
}

export class CallbackList {
  readonly #callbacks: readonly FitCallbacks[];

  get all(): readonly FitCallbacks[] {
    return this.#callbacks;
  }

  /** Returns true if at least one callback has this method. */
  has(method: 'onTrainBegin' | 'onEpochBegin'): boolean {
    return this.#callbacks.some((callback) => callback[method] !== undefined);
  }

  constructor(callbacks: FitCallbacks | readonly FitCallbacks[] | undefined) {
    this.#callbacks = callbacks === undefined ? [] : Array.isArray(callbacks) ? callbacks : [callbacks as FitCallbacks];
  }

  setModel(model: tfjs.LayersModel, params: Record<string, number | string | boolean | string[]>): void {
    for (const callback of this.#callbacks) {
      callback.setParams?.(params);
      callback.setModel?.(model);
    }
  }

  async each(call: (callback: FitCallbacks) => void | Promise<void>): Promise<void> {
    for (const callback of this.#callbacks) {
      await call(callback);
    }
  }

  /** @param read called when a callback accesses a value. */
  async batchEnd(
    at: { readonly batch: number; readonly step: number; readonly size: number },
    names: readonly string[],
    read: () => readonly number[],
  ): Promise<void> {
    await this.each((callback) => callback.onBatchEnd?.(at.batch, lazyLogs(at, names, read)));
  }
}

/**
 * Returns logs that read a value only when a callback accesses it. Reading all values in every step would make training wait for the
 * backend.
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
