import type * as tfjs from '@tensorflow/tfjs';
import { wholeNumber } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Column } from '../encoding/idx.ts';
import {
  doubleTensor,
  encodeRestart,
  encodeScalars,
  encodeTensorValue,
  type ScalarValue,
  stringTensor,
  type TensorValue,
} from './event-file.ts';
import { SummaryEventLog } from './event-log.ts';
import {
  experimentValue,
  type Hyperparameters,
  type HyperparameterValue,
  type Metric,
  sessionEndValue,
  sessionStartValue,
} from './summary-hparams.ts';
import { imageValue, picturesOf } from './summary-image.ts';
import { describe, type Numbers, numbersOf } from './summary-numbers.ts';

interface Histogram {
  /** The number of NaN and infinite values, which are not counted in any bucket. */
  readonly notFinite: number;
  /** Three numbers per bucket: left edge, right edge and count. */
  readonly buckets: Float64Array;
}

/**
 * Counts numbers in buckets of equal width from the smallest to the largest number, as TensorBoard does
 * (tensorboard/plugins/histogram/summary_v2.py). If all numbers are equal, the last bucket contains all of them. If there are no finite
 * numbers, all edges and counts are 0.
 */
export function histogramOf(numbers: ArrayLike<number>, buckets: number): Histogram {
  let [smallest, largest, notFinite] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (let index = 0; index < numbers.length; index++) {
    const number = numbers[index] as number;
    if (Number.isFinite(number)) {
      smallest = number < smallest ? number : smallest;
      largest = number > largest ? number : largest;
    } else {
      notFinite++;
    }
  }
  const rows = new Float64Array(buckets * 3);
  if (notFinite === numbers.length) {
    return { notFinite, buckets: rows };
  }
  // The difference between two large numbers may be infinite, so both are halved first.
  const width = (largest / 2 - smallest / 2) / buckets;
  const last = buckets - 1;
  for (let bucket = 0; bucket <= last; bucket++) {
    rows[bucket * 3] = 2 * (smallest / 2 + bucket * width);
    rows[bucket * 3 + 1] = bucket === last ? largest : 2 * (smallest / 2 + (bucket + 1) * width);
  }
  rows[0] = smallest;
  for (let index = 0; index < numbers.length; index++) {
    const number = numbers[index] as number;
    if (Number.isFinite(number)) {
      const bucket = width === 0 ? last : Math.min(last, Math.floor((number / 2 - smallest / 2) / width));
      rows[bucket * 3 + 2] = (rows[bucket * 3 + 2] as number) + 1;
    }
  }
  return { notFinite, buckets: rows };
}

/** Encodes a histogram in the plugin's format: a matrix with the columns left edge, right edge and count. */
export function histogramValue(tag: string, { buckets }: Histogram): TensorValue {
  return { tag, plugin: 'histograms', content: new Uint8Array(0), tensor: doubleTensor([buckets.length / 3, 3], buckets) };
}

/** Encodes text, which TensorBoard renders as Markdown. */
export function textValue(tag: string, text: string): TensorValue {
  return { tag, plugin: 'text', content: new Uint8Array(0), tensor: stringTensor([], [Buffer.from(text)]) };
}

/**
 * The part of a layer's JSON that describes the layer's inputs. TensorFlow.js writes the Keras 2 format, in which each input is a list
 * [layer, node, tensor, arguments].
 */
interface LayerJson {
  readonly config?: { readonly layers?: readonly LayerJson[] };
  readonly inbound_nodes?: readonly (readonly (readonly [string, number, number, ...unknown[]])[])[];
}

/**
 * Encodes a model's layers as Keras JSON for the Graphs tab ("conceptual graph"). TensorBoard draws edges only for the Keras 3 format
 * (tensorboard/plugins/graph/keras_util.py), so the function converts `inbound_nodes` to that format.
 * @throws the layer's error if a layer does not implement `getConfig`.
 */
function graphValue(tag: string, model: tfjs.LayersModel): TensorValue {
  const json = JSON.stringify(inKeras3Style(model.toJSON(null, false) as LayerJson));
  return { tag, plugin: 'graph_keras_model', content: Buffer.from('1'), tensor: stringTensor([], [Buffer.from(json)]) };
}

function inKeras3Style(layer: LayerJson): unknown {
  const { config, inbound_nodes: nodes } = layer;
  return {
    ...layer,
    ...(config?.layers === undefined ? {} : { config: { ...config, layers: config.layers.map(inKeras3Style) } }),
    ...(nodes === undefined ? {} : { inbound_nodes: nodes.map((inputs) => ({ args: [inputs.map(tensorOf)], kwargs: {} })) }),
  };
}

function tensorOf([name, node, index]: readonly [string, number, number, ...unknown[]]): unknown {
  return { class_name: '__keras_tensor__', config: { keras_history: [name, node, index] } };
}

/**
 * Writes a run's values for TensorBoard. Each call copies the values and writes them in the background. The program may dispose its tensors
 * after the call, because these methods neither keep nor dispose them. In a task that does not write summaries, the calls have no effect. A
 * tag may be any non-empty string. TensorBoard groups tags by the part before the first slash. Steps are non-negative integers. All methods
 * except `flush` throw TonyError SUMMARY_INVALID for invalid values, tags or steps.
 */
export interface Summaries {
  /**
   * Writes a number, which may be NaN or infinite.
   * @param tag for example `train/loss`.
   */
  scalar(tag: string, value: number, step: number): void;
  scalars(values: Readonly<Record<string, number>>, step: number): void;
  /**
   * Writes the distribution of numbers for the Histograms and Distributions tabs. Omits NaN and infinite numbers.
   * @param options.buckets the number of buckets of equal width. Default: 30, maximum: 1000.
   */
  histogram(tag: string, numbers: Numbers, step: number, options?: { readonly buckets?: number }): void;
  /**
   * Writes one or more images for the Images tab.
   * @param image a tensor of shape [height, width], [height, width, channels] or [n, height, width, channels], with 1 channel (grey), 2
   *   (grey and alpha), 3 (RGB) or 4 (RGBA). Floating-point numbers range from 0 to 1, integers and bytes from 0 to 255. Other values are
   *   clipped.
   * @param options.max the maximum number of images to keep. Default: 3.
   */
  image(tag: string, image: tfjs.Tensor | Column, step: number, options?: { readonly max?: number }): void;
  /** Writes Markdown text for the Text tab. */
  text(tag: string, text: string, step: number): void;
  /**
   * Sets the values in the run's row in the HParams tab. `fit` adds optimizer, learning_rate, batch_size, world_size, epochs and seed. Call
   * this method before training starts. Several calls are merged. If another role, such as an evaluator, passes the same values, its
   * metrics appear in the same row.
   * @param options.metrics the tags of the scalars to show as metric columns. Default: all scalars.
   */
  hparams(values: Hyperparameters, options?: { readonly metrics?: readonly (string | Metric)[] }): void;
  /** Writes a model's layers for the Graphs tab. `fit` calls this method. */
  graph(model: tfjs.LayersModel): void;
  /**
   * Makes TensorBoard ignore the values written by an earlier, interrupted process for this step and later steps. Use this method in a
   * custom training loop that resumes from a checkpoint. `fit` calls it.
   */
  resumeFrom(step: number): void;
  /** Resolves once TensorBoard can read all values written so far, or after a write has failed. */
  flush(): Promise<void>;
}

export interface SummaryOptions {
  readonly storage: Storage;
  /** The URI of the run's own folder. TensorBoard shows each folder as a run. */
  readonly dir: string;
  /** The row name in the HParams tab. Default: the run's name. */
  readonly trial?: string;
  readonly onTrouble: (message: string, about?: string) => void;
  readonly now?: () => number;
}

const DEFAULT_BUCKETS = 30;
const MOST_BUCKETS = 1000;
const DEFAULT_IMAGES = 3;
const MOST_KNOWN_TAGS = 10_000;
const FINISH_MS = 30_000;

export class SummaryWriter implements Summaries {
  readonly #log: SummaryEventLog;
  readonly #options: SummaryOptions;
  readonly #now: () => number;
  /** The largest step written by this process. `resumeFrom` must not discard steps written by the same process. */
  #largestStep = -1;
  #hparams: { values: Record<string, HyperparameterValue>; metrics: Metric[] } | null = null;
  #session: 'none' | 'begun' | 'ended' = 'none';
  readonly #reported = new Set<string>();
  /** The kind of value that each tag holds, for up to MOST_KNOWN_TAGS tags. */
  readonly #kinds = new Map<string, string>();

  constructor(options: SummaryOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#log = new SummaryEventLog(options);
  }

  get isEmpty(): boolean {
    return this.#log.isEmpty && this.#hparams === null;
  }

  resumeFrom(step: number): void {
    checkStep(step);
    if (this.#largestStep < step) {
      // TensorBoard interprets the first such record of a run as the start of the run, so this method writes it twice.
      const record = encodeRestart(this.#seconds(), step);
      this.#log.add(record);
      this.#log.add(record);
    }
  }

  scalar(tag: string, value: number, step: number): void {
    this.#addScalars([{ tag, value }], step);
  }

  scalars(values: Readonly<Record<string, number>>, step: number): void {
    const list = Object.entries(values).map(([tag, value]) => ({ tag, value }));
    if (list.length > 0) {
      this.#addScalars(list, step);
    }
  }

  #addScalars(scalars: readonly ScalarValue[], step: number): void {
    checkStep(step);
    for (const { tag, value } of scalars) {
      this.#claim(tag, 'scalars');
      if (typeof value !== 'number') {
        throw new TonyError('SUMMARY_INVALID', `the scalar ${tag} is ${describe(value)}, not a number`);
      }
    }
    this.#begin(step);
    this.#log.add(encodeScalars(this.#seconds(), step, scalars));
  }

  histogram(tag: string, numbers: Numbers, step: number, options: { readonly buckets?: number } = {}): void {
    this.#claim(tag, 'histograms');
    checkStep(step);
    const buckets = options.buckets ?? DEFAULT_BUCKETS;
    if (!Number.isInteger(buckets) || buckets < 1 || buckets > MOST_BUCKETS) {
      throw new TonyError(
        'SUMMARY_INVALID',
        `the histogram ${tag} has ${buckets} buckets, but must have a whole number from 1 to ${MOST_BUCKETS}`,
      );
    }
    const histogram = histogramOf(numbersOf(tag, numbers), buckets);
    if (histogram.notFinite > 0) {
      this.#reportOnce(tag, `the histogram ${tag} at step ${step} omits NaN and infinite numbers: ${histogram.notFinite}`);
    }
    this.#add(step, histogramValue(tag, histogram));
  }

  image(tag: string, image: tfjs.Tensor | Column, step: number, options: { readonly max?: number } = {}): void {
    this.#claim(tag, 'images');
    checkStep(step);
    const max = wholeNumber(`max of the image ${tag}`, options.max ?? DEFAULT_IMAGES, 1, 'SUMMARY_INVALID');
    const pictures = picturesOf(tag, image, max);
    if (pictures.isWhite) {
      this.#reportOnce(tag, `the image ${tag} appears mostly white: floating-point numbers must be 0 to 1, or integers 0 to 255`);
    }
    const wallTime = this.#seconds();
    this.#begin(step);
    // zlib compresses the images in another thread.
    const record = imageValue(tag, pictures).then((value) => encodeTensorValue(wallTime, step, value));
    this.#log.addLater(record, pictures.pixels.length);
  }

  text(tag: string, text: string, step: number): void {
    this.#claim(tag, 'text');
    checkStep(step);
    if (typeof text !== 'string') {
      throw new TonyError('SUMMARY_INVALID', `the text ${tag} is ${describe(text)}, not a string`);
    }
    this.#add(step, textValue(tag, text));
  }

  hparams(values: Hyperparameters, options: { readonly metrics?: readonly (string | Metric)[] } = {}): void {
    for (const [name, value] of Object.entries(values)) {
      const known = typeof value === 'string' || typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value));
      if (!known) {
        throw new TonyError(
          'SUMMARY_INVALID',
          `the hyperparameter ${name} is ${describe(value)}, but must be a finite number, a string, true or false`,
        );
      }
    }
    const metrics = (options.metrics ?? []).map((metric) => (typeof metric === 'string' ? { tag: metric } : metric));
    for (const { tag } of metrics) {
      checkTag(tag);
    }
    if (this.#session !== 'none') {
      this.#reportOnce(
        'hparams',
        'hyperparameters set after the start of training are not shown, because TensorBoard reads only the first set in each run',
      );
      return;
    }
    this.#hparams ??= { values: {}, metrics: [] };
    Object.assign(this.#hparams.values, values);
    this.#hparams.metrics.push(...metrics);
  }

  /** Adds defaults for hyperparameters that the program has not set. Has no effect once the session has started. */
  addHparams(values: Hyperparameters): void {
    if (this.#session === 'none') {
      this.#hparams = { values: { ...values, ...this.#hparams?.values }, metrics: this.#hparams?.metrics ?? [] };
    }
  }

  graph(model: tfjs.LayersModel): void {
    try {
      this.#add(0, graphValue('keras', model));
    } catch (error) {
      this.#reportOnce('graph', `the Graphs tab cannot show the model: ${messageOf(error)}`);
    }
  }

  async flush(): Promise<void> {
    this.#beginSession();
    await this.#log.flush();
  }

  endSession(succeeded: boolean): void {
    this.#beginSession();
    if (this.#session === 'begun') {
      this.#session = 'ended';
      this.#log.add(encodeTensorValue(this.#seconds(), 0, sessionEndValue(this.#seconds(), succeeded)));
    }
  }

  /** Writes all remaining values. Retries for up to `mostMs`. */
  async finish(mostMs = FINISH_MS): Promise<void> {
    this.#beginSession();
    await this.#log.finish(mostMs);
  }

  /** Flushes synchronously if the folder is on a local disk. */
  finishNow(): void {
    this.#beginSession();
    try {
      this.#log.flushNow();
    } catch (error) {
      this.#options.onTrouble(`the last summaries could not be written: ${messageOf(error)}`);
    }
  }

  #add(step: number, value: TensorValue): void {
    this.#begin(step);
    this.#log.add(encodeTensorValue(this.#seconds(), step, value));
  }

  /** Records which kind of value a tag holds. Throws if the tag already holds another kind, because TensorBoard would show neither. */
  #claim(tag: string, kind: string): void {
    const known = this.#kinds.get(tag);
    if (known === kind) {
      return;
    }
    checkTag(tag);
    if (known !== undefined) {
      throw new TonyError('SUMMARY_INVALID', `the tag ${tag} already holds ${known} and cannot hold ${kind} as well`, {
        hint: `Use another tag for the ${kind}.`,
      });
    }
    if (this.#kinds.size < MOST_KNOWN_TAGS) {
      this.#kinds.set(tag, kind);
    }
  }

  /** Records a value's step. The first value of a step above 0 starts the session, after which the hyperparameters cannot change. */
  #begin(step: number): void {
    if (step > this.#largestStep) {
      this.#largestStep = step;
    }
    if (step > 0 && this.#hparams !== null) {
      this.#beginSession();
    }
  }

  #beginSession(): void {
    if (this.#hparams === null) {
      return;
    }
    const { values, metrics } = this.#hparams;
    const now = this.#seconds();
    this.#hparams = null;
    this.#session = 'begun';
    if (metrics.length > 0) {
      this.#log.add(encodeTensorValue(now, 0, experimentValue(now, values, metrics)));
    }
    this.#log.add(encodeTensorValue(now, 0, sessionStartValue(now, values, this.#options.trial ?? '')));
  }

  /** Reports each problem only once, because it is likely to recur in every step. */
  #reportOnce(about: string, message: string): void {
    if (!this.#reported.has(about) && this.#reported.size < 100) {
      this.#reported.add(about);
      this.#options.onTrouble(message);
    }
  }

  #seconds(): number {
    return this.#now() / 1000;
  }
}

function checkTag(tag: string): void {
  if (typeof tag !== 'string' || tag === '') {
    throw new TonyError('SUMMARY_INVALID', `invalid tag ${describe(tag)}: a tag must be a non-empty string`);
  }
}

function checkStep(step: number): void {
  if (!Number.isSafeInteger(step) || step < 0) {
    throw new TonyError('SUMMARY_INVALID', `invalid step ${describe(step)}: a step must be a non-negative integer`);
  }
}

/** Summaries that have no effect, for ranks that do not write summaries and for programs without a summary folder. */
export const NO_SUMMARIES: Summaries = {
  scalar: () => {},
  scalars: () => {},
  histogram: () => {},
  image: () => {},
  text: () => {},
  hparams: () => {},
  graph: () => {},
  resumeFrom: () => {},
  flush: () => Promise.resolve(),
};
