import type * as tfjs from '@tensorflow/tfjs';

export type EpochLogs = Readonly<Record<string, number>>;

/** What a batch came to, averaged over all ranks: the loss and the metrics by their names. They are computed when somebody looks at them. */
export interface BatchLogs {
  /** Within the epoch, from 0. */
  readonly batch: number;
  /** Steps since the very beginning, this one included. */
  readonly step: number;
  /** Examples of all ranks together. */
  readonly size: number;
  readonly [metric: string]: number;
}

/**
 * As of `model.fit`: what `tf.callbacks.earlyStopping()` and `new tf.CustomCallback({...})` give, or a plain object. They are called on every
 * rank, with the same values on each. `model.stopTraining = true` in any of them, on any rank, ends training on all ranks after the same step.
 */
export interface FitCallbacks {
  setParams?(params: Record<string, number | string | boolean | string[]>): void;
  setModel?(model: tfjs.LayersModel): void;
  onTrainBegin?(logs: EpochLogs): void | Promise<void>;
  onTrainEnd?(logs: EpochLogs): void | Promise<void>;
  /** @param epoch from 0. */
  onEpochBegin?(epoch: number, logs: EpochLogs): void | Promise<void>;
  /** @param logs means over the epoch, and `val_...` where there is validation data. */
  onEpochEnd?(epoch: number, logs: EpochLogs): void | Promise<void>;
  /** @param batch within the epoch, from 0. */
  onBatchBegin?(batch: number, logs: EpochLogs): void | Promise<void>;
  /** @param batch within the epoch, from 0; `logs.step` counts through all epochs. */
  onBatchEnd?(batch: number, logs: BatchLogs): void | Promise<void>;
}

/** Several callbacks, called one after the other. */
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

  async trainBegin(): Promise<void> {
    for (const callback of this.#callbacks) await callback.onTrainBegin?.({});
  }

  async trainEnd(): Promise<void> {
    for (const callback of this.#callbacks) await callback.onTrainEnd?.({});
  }

  async epochBegin(epoch: number): Promise<void> {
    for (const callback of this.#callbacks) await callback.onEpochBegin?.(epoch, {});
  }

  async epochEnd(epoch: number, logs: EpochLogs): Promise<void> {
    // Each has logs of its own: tf.CustomCallback and others write into them.
    for (const callback of this.#callbacks) await callback.onEpochEnd?.(epoch, { ...logs });
  }

  async batchBegin(batch: number): Promise<void> {
    for (const callback of this.#callbacks) await callback.onBatchBegin?.(batch, {});
  }

  /** @param names of what `read` gives; it is only called when somebody looks. */
  async batchEnd(
    at: { readonly batch: number; readonly step: number; readonly size: number },
    names: readonly string[],
    read: () => readonly number[],
  ): Promise<void> {
    for (const callback of this.#callbacks) {
      if (callback.onBatchEnd !== undefined) await callback.onBatchEnd(at.batch, lazyLogs(at, names, read));
    }
  }
}

/** A plain object to whoever looks, but that nothing is read before: waiting for the backend in each step would slow training down. */
function lazyLogs(at: object, names: readonly string[], read: () => readonly number[]): BatchLogs {
  const logs = { ...at };
  names.forEach((name, index) => {
    Object.defineProperty(logs, name, { enumerable: true, configurable: true, get: () => read()[index] ?? 0 });
  });
  // console.log would print [Getter].
  Object.defineProperty(logs, Symbol.for('nodejs.util.inspect.custom'), { value: () => ({ ...logs }) });
  return logs as BatchLogs;
}
