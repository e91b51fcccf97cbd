import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type * as tfjs from '@tensorflow/tfjs';
import { anySignal } from '../../platform/async/any-signal.ts';
import { pause, retry } from '../../platform/async/backoff.ts';
import {
  checkOptionValues,
  isFunction,
  isObject,
  isOneOf,
  isText,
  isTexts,
  isWhole,
  type OptionRules,
  wholeNumber,
} from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { disposeElement } from '../data/reading/dispose.ts';
import type { Dataset } from '../data/sources/dataset.ts';
import { checkBatchSize, statefulBatches } from '../model/stateful-batches.ts';
import { outputPlace } from '../process/output-place.ts';
import { type PartEncoder, type PredictFormat, partEncoder } from './predict-format.ts';
import { type InferenceModel, isModel, modelFingerprint, type Prediction, predictBatch, type Values } from './predict-model.ts';
import { PredictOutput } from './predict-output.ts';

/** The task that computes predictions: see Cluster. */
export interface PredictTask {
  readonly tf: typeof tfjs;
  readonly role: string;
  readonly index: number;
  readonly generation: number;
  readonly jobId: string;
  readonly share: WorkShare;
  readonly outputUri: string | null;
  readonly storage: Storage;
  report(values: Readonly<Record<string, number>>, options: { readonly step: number }): void;
}

/**
 * A worker's share of the splits. Each worker first processes its own share (every `count`-th split) in order. It then processes
 * splits not yet finished by other workers, because these workers may be slow or may have failed. The workers do not communicate: the
 * output files show which splits are finished. If two workers compute the same split, only one result is stored.
 */
interface WorkShare {
  readonly index: number;
  readonly count: number;
}

export interface PlannedSplit {
  readonly split: number;
  /**
   * `own`: the split is in this worker's share. `free`: the split is in another worker's share, and that worker has not reached it.
   * `contested`: another worker may be computing the split.
   */
  readonly kind: 'own' | 'free' | 'contested';
}

/**
 * Selects the next split for a worker.
 * @param splits the number of splits.
 * @param isDone whether the results of a split exist.
 * @returns null if all splits are finished.
 */
export function nextSplit(splits: number, isDone: (split: number) => boolean, { index, count }: WorkShare): PlannedSplit | null {
  const free: number[] = [];
  const contested: number[] = [];
  const begun = new Set<number>();
  for (let split = 0; split < splits; split++) {
    if (isDone(split)) {
      continue;
    }
    const owner = split % count;
    if (owner === index) {
      return { split, kind: 'own' };
    }
    // The owner processes its share in order, so it may be computing its first unfinished split, but not yet a later one.
    if (begun.has(owner)) {
      free.push(split);
    } else {
      contested.push(split);
    }
    begun.add(owner);
  }
  // Workers that select a split at the same time select different splits.
  const pick = (from: readonly number[]) => from[Math.floor((((index % count) + 0.5) * from.length) / count)];
  const split = pick(free) ?? pick(contested);
  return split === undefined ? null : { split, kind: free.length > 0 ? 'free' : 'contested' };
}

export interface PredictOptions {
  /**
   * The results folder: a URI, or a path relative to the job's output folder. If the folder contains partial results from an earlier job,
   * this job completes them.
   */
  readonly output: string;
  /**
   * The file format. Default: `jsonl`. `csv` requires flat objects as results. `tfrecord` requires bytes, or the features of a
   * tf.train.Example.
   */
  readonly format?: PredictFormat;
  readonly compression?: 'none' | 'gzip';
  /** The number of elements per batch. Default: 128. */
  readonly batchSize?: number;
  /** The columns of CSV files. Default: the fields of the first result of each part. */
  readonly columns?: readonly string[];
  /**
   * A version string for code and data that the function uses. Change the version whenever they change. `predict` itself detects changes
   * to the model's weights and to the function's own source text.
   */
  readonly version?: string;
  readonly signal?: AbortSignal;
}

export interface ModelPredictOptions<T, R, P extends Prediction = Values> extends PredictOptions {
  /**
   * Returns the model's input for an element: a number, an array, `{ values, shape }`, or an object of these keyed by the model's input
   * names.
   */
  readonly input?: (element: T) => unknown;
  /**
   * Returns the result to write for an element. Default: the model's output numbers. For a model with several outputs, the prediction is a
   * list, or an object keyed by output name: `result: (element, [first, second]: Values[]) => ...`.
   */
  readonly result?: (element: T, prediction: P) => R;
}

/** Returns one result for each element, in the same order. */
export type PredictFunction<T, R> = (elements: readonly T[]) => readonly R[] | Promise<readonly R[]>;

export interface PredictReport {
  /** The URI of the results folder. */
  readonly output: string;
  readonly parts: number;
  readonly records: number;
  /** The numbers of parts and records that this task wrote during this run. */
  readonly written: { readonly parts: number; readonly records: number };
}

const OPTIONS: OptionRules<ModelPredictOptions<never, unknown, never>> = {
  output: isText,
  format: isOneOf('jsonl', 'csv', 'tfrecord'),
  compression: isOneOf('none', 'gzip'),
  batchSize: isWhole(1),
  columns: isTexts,
  version: isText,
  signal: isObject,
  input: isFunction,
  result: isFunction,
};

const DEFAULT_BATCH = 128;
/** The size, in bytes, of each write to storage. */
const PIECE_BYTES = 256 * 1024;
const REPORT_MS = 1000;
/** The interval, in ms, at which a worker checks whether other workers have finished a split. */
const CHECK_MS = 1500;
/**
 * How long, in ms, a worker waits for a split that another worker may be computing. The worker waits for WAIT_MS or WAIT_SPLITS times the
 * duration of its own longest split, whichever is longer.
 */
const WAIT_MS = 3000;
const WAIT_SPLITS = 1.5;
/** How many times to try to process a split if the cluster does not respond. */
const TRIES = 5;
const BACKOFF = { firstMs: 2_000, mostMs: 16_000 };

/** Applies a model or a function to each element of a dataset. See Cluster.predict. */
export async function predict<T, R, P extends Prediction = Values>(
  cluster: PredictTask,
  dataset: Dataset<T>,
  compute: PredictFunction<T, R> | InferenceModel,
  options: ModelPredictOptions<T, R, P>,
): Promise<PredictReport> {
  checkOptionValues<object>('predict', options, OPTIONS);
  if (dataset.isBatched) {
    throw new TonyError('DATA_INVALID', 'predict creates batches itself', { hint: 'Remove batch() from the dataset, and set batchSize.' });
  }
  const { storage, role, index, generation, jobId } = cluster;
  const { format = 'jsonl', compression = 'none' } = options;
  const batchSize = wholeNumber('batchSize', options.batchSize ?? DEFAULT_BATCH);
  checkBatchSize(isModel(compute) ? statefulBatches(compute) : null, batchSize);
  const { splits, fingerprint } = await dataset.splits({ storage });
  const model = [isModel(compute) ? await modelFingerprint(compute) : hashOf(String(compute)), options.version ?? '']
    .filter(Boolean)
    .join(' ');
  const writer = `${jobId || 'alone'}-${role}-${index}-${generation}`;
  const description = { version: 1, format, compression, model, fingerprint, splits } as const;
  const output = await PredictOutput.open(storage, outputPlace(cluster.outputUri, options.output), description, writer);
  const work: Work<T> = {
    dataset: dataset.prefetch(2 * batchSize),
    batchSize,
    compute: isModel(compute) ? modelFunction(cluster, compute, options) : compute,
    encoder: () => partEncoder(format, options.columns ?? null),
  };
  const written = await new Predictor(cluster, output, work, options.signal).run();
  const manifest = await output.finish();
  return { output: output.uri, parts: manifest.parts.length, records: manifest.records, written };
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

function modelFunction<T, R, P extends Prediction>(
  cluster: PredictTask,
  model: InferenceModel,
  options: ModelPredictOptions<T, R, P>,
): PredictFunction<T, unknown> {
  const { input = (element: T): unknown => element, result } = options;
  return async (elements) => {
    const predictions = await predictBatch(cluster.tf, model, elements.map(input));
    return result === undefined ? predictions : elements.map((element, at) => result(element, predictions[at] as P));
  };
}

interface Work<T> {
  readonly dataset: Dataset<T>;
  readonly batchSize: number;
  readonly compute: PredictFunction<T, unknown>;
  readonly encoder: () => PartEncoder;
}

class Predictor<T> {
  readonly #cluster: PredictTask;
  readonly #output: PredictOutput;
  readonly #work: Work<T>;
  readonly #signal: AbortSignal | undefined;
  /** Splits that this worker may compute because other workers have not finished them within the expected time. */
  readonly #abandoned = new Set<number>();
  #written = { parts: 0, records: 0 };
  #longestSplitMs = 0;
  #computed = 0;
  #reported = 0;
  #reportedAt = performance.now();

  constructor(cluster: PredictTask, output: PredictOutput, work: Work<T>, signal: AbortSignal | undefined) {
    this.#cluster = cluster;
    this.#output = output;
    this.#work = work;
    this.#signal = signal;
  }

  async run(): Promise<{ readonly parts: number; readonly records: number }> {
    let done = await this.#output.done();
    for (let next = this.#next(done); next !== null; next = this.#next(done)) {
      this.#signal?.throwIfAborted();
      if (next.kind === 'own') {
        if (!(await this.#output.isDone(next.split))) {
          await this.#do(next.split);
        }
        done.add(next.split);
        continue;
      }
      done = await this.#output.done();
      next = this.#next(done);
      if (next === null) {
        break;
      }
      if (next.kind === 'contested' && !this.#abandoned.has(next.split) && (await this.#isDoneInTime(done, next.split))) {
        continue;
      }
      await this.#do(next.split);
      done.add(next.split);
    }
    this.#report();
    return this.#written;
  }

  #next(done: ReadonlySet<number>): PlannedSplit | null {
    return nextSplit(this.#output.parts, (split) => done.has(split), this.#cluster.share);
  }

  /**
   * Waits for another worker to finish the split. The time limit starts over whenever any split is finished. Returns true if the split is
   * finished.
   */
  async #isDoneInTime(known: ReadonlySet<number>, split: number): Promise<boolean> {
    const timeLimit = Math.max(WAIT_MS, WAIT_SPLITS * this.#longestSplitMs);
    let finished = known.size;
    for (let since = performance.now(); performance.now() - since < timeLimit; ) {
      await pause(Math.min(CHECK_MS, timeLimit / 3), this.#signal);
      this.#signal?.throwIfAborted();
      const done = await this.#output.done();
      if (done.has(split)) {
        return true;
      }
      if (done.size > finished) {
        since = performance.now();
      }
      finished = done.size;
    }
    // No split was finished within the time limit, so the workers responsible for the remaining splits have probably failed.
    for (let other = 0; other < this.#output.parts; other++) {
      this.#abandoned.add(other);
    }
    return false;
  }

  async #do(split: number): Promise<void> {
    const onFailure = (error: unknown, failures: number): void => {
      const isUnavailable = error instanceof TonyError && error.unreachable;
      if (!isUnavailable || failures === TRIES) {
        throw error;
      }
      process.stderr.write(`tony-ts: ${this.#output.name(split)} failed and will be retried: ${messageOf(error)}\n`);
    };
    await retry(() => this.#attempt(split), { ...BACKOFF, signal: this.#signal, onFailure });
  }

  async #attempt(split: number): Promise<void> {
    const started = performance.now();
    const overtaken = new AbortController();
    const looking = setInterval(() => {
      this.#output.isDone(split).then(
        (isDone) => isDone && overtaken.abort(),
        () => {},
      );
    }, CHECK_MS);
    const signal = this.#signal === undefined ? overtaken.signal : anySignal([overtaken.signal, this.#signal]);
    let records = 0;
    const contents = Readable.from(
      this.#bytesOf(split, signal, (count) => {
        records += count;
      }),
      { objectMode: true, highWaterMark: 2 },
    );
    try {
      if (await this.#output.write(split, contents, () => records)) {
        this.#written = { parts: this.#written.parts + 1, records: this.#written.records + records };
        this.#longestSplitMs = Math.max(this.#longestSplitMs, performance.now() - started);
      }
    } finally {
      clearInterval(looking);
    }
  }

  /** Yields a split's encoded results. Reads and computes only when the consumer requests the next piece. */
  async *#bytesOf(split: number, signal: AbortSignal, onRecords: (count: number) => void): AsyncGenerator<Buffer, void> {
    const { dataset, batchSize, encoder: createEncoder } = this.#work;
    const encoder = createEncoder();
    const reader = dataset.read({ storage: this.#cluster.storage, split, signal });
    let elements: T[] = [];
    let pieces: Buffer[] = [];
    let bytes = 0;
    try {
      for (;;) {
        const { done, value } = await reader.next();
        if (!done) {
          elements.push(value);
        }
        if (elements.length < (done ? 1 : batchSize)) {
          if (done) {
            break;
          }
          continue;
        }
        signal.throwIfAborted();
        const results = await this.#results(elements);
        elements = [];
        for (const result of results) {
          const encoded = encoder.encode(result);
          pieces.push(encoded);
          bytes += encoded.length;
        }
        onRecords(results.length);
        if (bytes >= PIECE_BYTES) {
          yield Buffer.concat(pieces, bytes);
          pieces = [];
          bytes = 0;
        }
      }
      signal.throwIfAborted();
      if (bytes > 0) {
        yield Buffer.concat(pieces, bytes);
      }
    } finally {
      for (const element of elements) {
        disposeElement(element);
      }
      await reader.return();
    }
  }

  async #results(elements: readonly T[]): Promise<readonly unknown[]> {
    const results = await this.#work.compute(elements);
    for (const element of elements) {
      disposeElement(element);
    }
    if (!Array.isArray(results) || results.length !== elements.length) {
      const given = Array.isArray(results) ? `${results.length} results` : `${typeof results}`;
      throw new TonyError('DATA_INVALID', `the function returned ${given} for ${elements.length} elements`, {
        hint: 'Return an array with one result for each element, in the same order. To omit elements, filter the dataset.',
      });
    }
    this.#computed += elements.length;
    if (performance.now() - this.#reportedAt >= REPORT_MS) {
      this.#report();
    }
    return results;
  }

  #report(): void {
    const seconds = (performance.now() - this.#reportedAt) / 1000;
    const before = this.#reported;
    this.#reported = this.#computed;
    this.#reportedAt = performance.now();
    const values = {
      'predict/records': this.#computed,
      'predict/parts': this.#written.parts,
      ...(seconds >= 0.5 && { 'predict/records_per_second': (this.#computed - before) / seconds }),
    };
    this.#cluster.report(values, { step: this.#computed });
  }
}
