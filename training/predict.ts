import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { anySignal } from '../conf/any-signal.ts';
import { messageOf, TonyError } from '../conf/errors.ts';
import type { Cluster } from './cluster.ts';
import type { Dataset } from './datasets/dataset.ts';
import { disposeElement } from './datasets/dispose.ts';
import { outputPlace } from './output-place.ts';
import { type PartEncoder, type PredictFormat, partEncoder } from './predict-format.ts';
import { type InferenceModel, isModel, modelFingerprint, type Prediction, predictBatch, type Values } from './predict-model.ts';
import { PredictOutput } from './predict-output.ts';
import { type NextSplit, nextSplit } from './predict-plan.ts';

export interface PredictOptions {
  /**
   * Folder of the results: a URI, or a path (in the job's own output folder when relative). A job that finds there what an earlier one has left
   * goes on where that was.
   */
  readonly output: string;
  /** `jsonl` unless told. `csv`: results are flat objects. `tfrecord`: bytes, or the features of a tf.train.Example. */
  readonly format?: PredictFormat;
  readonly compression?: 'none' | 'gzip';
  /** Elements at a time; 128 unless told. */
  readonly batchSize?: number;
  /** Of CSV files; the fields of each part's first result unless told. */
  readonly columns?: readonly string[];
  /** Tells this function, with what it depends on, from others. The model's weights, or the function's text, tell them apart anyway. */
  readonly version?: string;
  readonly signal?: AbortSignal;
}

export interface ModelPredictOptions<T, R, P extends Prediction = Values> extends PredictOptions {
  /** What of an element the model gets: a number, an array, `{ values, shape }`, or an object of them by the model's input names. */
  readonly input?: (element: T) => unknown;
  /**
   * What is written for an element; the model's numbers unless told. A model of several outputs gives a list of them, or an object by their names:
   * `result: (element, [first, second]: Values[]) => ...`.
   */
  readonly result?: (element: T, prediction: P) => R;
}

/** For each element its result, in the same order. */
export type PredictFunction<T, R> = (elements: readonly T[]) => readonly R[] | Promise<readonly R[]>;

export interface PredictReport {
  /** The folder. */
  readonly output: string;
  readonly parts: number;
  readonly records: number;
  /** By this task, in this run. */
  readonly written: { readonly parts: number; readonly records: number };
}

const DEFAULT_BATCH = 128;
/** Bytes that are handed on at once. */
const PIECE_BYTES = 256 * 1024;
const REPORT_MS = 1000;
/** How often it is looked whether somebody else was faster. */
const LOOK_MS = 1500;
/** How long a split that another worker may be at is left to it: so long at least, or as many times what a split takes here. */
const LEAVE_MS = 3000;
const LEAVE_SPLITS = 1.5;
/** How often a split is begun again when the cluster does not answer. */
const TRIES = 5;

/**
 * Applies a model or function to each element of a dataset, with any number of workers. Each split of the dataset's files (`dataset.splits()`)
 * becomes one file of results, named by its position (`part-00017.jsonl`) and in its order: there whole and once, or not at all, however often
 * workers die, are started again, or do the same. The file `_SUCCESS` is there when all are, with the number of records of each.
 *
 * Workers share by themselves and need no ring: `ranked: false` in job.yaml lets one that dies be replaced without a pause for the others.
 *
 * @param dataset of files, without `batch`, `shuffle`, `repeat`, `take`, `skip` and `shard`. Elements with tensors are disposed of.
 * @returns when all parts are there, this task's or not.
 * @throws TonyError OUTPUT_MISMATCH when the folder holds results of other files or another model; DATA_INVALID, NOT_FOUND, and what the function throws.
 */
export function predict<T, R>(
  cluster: Cluster,
  dataset: Dataset<T>,
  compute: PredictFunction<T, R>,
  options: PredictOptions,
): Promise<PredictReport>;
export function predict<T, R, P extends Prediction = Values>(
  cluster: Cluster,
  dataset: Dataset<T>,
  model: InferenceModel,
  options: ModelPredictOptions<T, R, P>,
): Promise<PredictReport>;
export async function predict<T, R, P extends Prediction>(
  cluster: Cluster,
  dataset: Dataset<T>,
  compute: PredictFunction<T, R> | InferenceModel,
  options: ModelPredictOptions<T, R, P>,
): Promise<PredictReport> {
  if (dataset.isBatched) {
    throw new TonyError('DATA_INVALID', 'predict makes its batches itself', { hint: 'Leave batch out of the dataset, and say batchSize.' });
  }
  const { storage, role, index, generation, applicationId } = cluster;
  const { format = 'jsonl', compression = 'none', batchSize = DEFAULT_BATCH } = options;
  if (!Number.isInteger(batchSize) || batchSize < 1)
    throw new TonyError('DATA_INVALID', `batchSize is ${batchSize}; it must be at least 1`);
  const { splits, fingerprint } = await dataset.splits({ storage });
  const model = [isModel(compute) ? await modelFingerprint(compute) : hashOf(String(compute)), options.version ?? '']
    .filter(Boolean)
    .join(' ');
  const writer = `${applicationId || 'alone'}-${role}-${index}-${generation}`;
  const description = { version: 1, format, compression, model, fingerprint, splits } as const;
  const output = await PredictOutput.open(storage, outputPlace(cluster, options.output), description, writer);
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
  cluster: Cluster,
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

/** One worker's way through the splits. */
class Predictor<T> {
  readonly #cluster: Cluster;
  readonly #output: PredictOutput;
  readonly #work: Work<T>;
  readonly #signal: AbortSignal | undefined;
  /** Splits that were left to their workers long enough. */
  readonly #abandoned = new Set<number>();
  #written = { parts: 0, records: 0 };
  #longestSplitMs = 0;
  #computed = 0;
  #reported = 0;
  #reportedAt = performance.now();

  constructor(cluster: Cluster, output: PredictOutput, work: Work<T>, signal: AbortSignal | undefined) {
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
        if (!(await this.#output.isDone(next.split))) await this.#do(next.split);
        done.add(next.split);
        continue;
      }
      done = await this.#output.done();
      next = this.#next(done);
      if (next === null) break;
      if (next.kind === 'contested' && !this.#abandoned.has(next.split) && (await this.#isDoneInTime(done, next.split))) continue;
      await this.#do(next.split);
      done.add(next.split);
    }
    this.#report();
    return this.#written;
  }

  #next(done: ReadonlySet<number>): NextSplit | null {
    return nextSplit(this.#output.parts, (split) => done.has(split), this.#cluster.position);
  }

  /** Leaves a split to the worker that may be at it, for as long as it should need, or as anything else gets done. */
  async #isDoneInTime(known: ReadonlySet<number>, split: number): Promise<boolean> {
    const patience = Math.max(LEAVE_MS, LEAVE_SPLITS * this.#longestSplitMs);
    let there = known.size;
    for (let since = performance.now(); performance.now() - since < patience; ) {
      await delay(Math.min(LOOK_MS, patience / 3), undefined, { ...(this.#signal && { signal: this.#signal }) });
      const done = await this.#output.done();
      if (done.has(split)) return true;
      if (done.size > there) since = performance.now();
      there = done.size;
    }
    // Nobody has got anything done: whoever was at the others is no more at them.
    for (let other = 0; other < this.#output.parts; other++) this.#abandoned.add(other);
    return false;
  }

  async #do(split: number): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(split);
      } catch (error) {
        const isAway = error instanceof TonyError && error.exitCode === 3;
        if (!isAway || attempt === TRIES) throw error;
        process.stderr.write(`tony-ts: ${this.#output.name(split)} is begun again: ${messageOf(error)}\n`);
        await delay(1000 * 2 ** attempt, undefined, { ...(this.#signal && { signal: this.#signal }) });
      }
    }
  }

  /** Gives up as soon as somebody else has done it. */
  async #attempt(split: number): Promise<void> {
    const started = performance.now();
    const overtaken = new AbortController();
    const looking = setInterval(() => {
      this.#output.isDone(split).then(
        (isDone) => isDone && overtaken.abort(),
        () => {},
      );
    }, LOOK_MS);
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

  /** Reads, computes and encodes as fast as what comes of it is taken. */
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
        if (!done) elements.push(value);
        if (elements.length < (done ? 1 : batchSize)) {
          if (done) break;
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
      if (bytes > 0) yield Buffer.concat(pieces, bytes);
    } finally {
      for (const element of elements) disposeElement(element);
      await reader.return();
    }
  }

  async #results(elements: readonly T[]): Promise<readonly unknown[]> {
    const results = await this.#work.compute(elements);
    for (const element of elements) disposeElement(element);
    if (!Array.isArray(results) || results.length !== elements.length) {
      const given = Array.isArray(results) ? `${results.length} results` : `${typeof results}`;
      throw new TonyError('DATA_INVALID', `the function gives ${given} for ${elements.length} elements`, {
        hint: 'Give an array with one result for each element, in the same order; what is to be left out is filtered from the dataset.',
      });
    }
    this.#computed += elements.length;
    if (performance.now() - this.#reportedAt >= REPORT_MS) this.#report();
    return results;
  }

  #report(): void {
    const seconds = (performance.now() - this.#reportedAt) / 1000;
    const before = this.#reported;
    this.#reported = this.#computed;
    this.#reportedAt = performance.now();
    this.#cluster.metrics(this.#computed, {
      'predict/records': this.#computed,
      'predict/parts': this.#written.parts,
      ...(seconds >= 0.5 && { 'predict/recordsPerSecond': (this.#computed - before) / seconds }),
    });
  }
}
