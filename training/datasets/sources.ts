import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { type CsvOptions, type CsvRow, csvFormat, type LabelledCsvRow } from './csv.ts';
import { Dataset } from './dataset.ts';
import { type ContentsOptions, contentsNode, type FileContents, listedFiles } from './file-format.ts';
import { type DataFile, type Files, listerOfColumns } from './file-set.ts';
import { FileSource, type SourceOptions } from './file-source.ts';
import { type IdxOptions, type IdxRecord, idxFormat } from './idx-format.ts';
import { type ImageElement, ImageNode, type ImageOptions, labelledImages } from './image-files.ts';
import { lineFormat } from './line-format.ts';
import { elementsOfTfData, IterableNode } from './memory.ts';
import { SampleNode, type SampleOptions } from './sample.ts';
import { type RecordOptions, tfRecordFormat } from './tfrecord-format.ts';
import { ZipNode } from './zip.ts';

/*
 * Where datasets begin. Files are named by URIs (hdfs://, file://) or paths; names may be patterns (`part-*`, `{train,extra}-[0-9]*`), and
 * a folder stands for the files in it.
 */

/**
 * The records of TFRecord files, with their checksums verified. Views of what was read: copy what you keep for long.
 * TFRecord files cannot be cut: for N ranks to share them evenly there should be N files or a multiple.
 */
export function tfrecords(files: Files, options: RecordOptions & SourceOptions = {}): Dataset<Buffer> {
  return new Dataset(new FileSource(files, tfRecordFormat(options), options));
}

/** The lines of text files (UTF-8), without their line breaks; empty ones too. */
export function lines(files: Files, options: RecordOptions & SourceOptions = {}): Dataset<string> {
  return new Dataset(
    new FileSource(
      files,
      lineFormat(options, async () => (line: string) => line),
      options,
    ),
  );
}

/** A JSON value a line; empty lines are passed over. */
export function jsonl<T = unknown>(files: Files, options: RecordOptions & SourceOptions = {}): Dataset<T> {
  const parse = (line: string): T | undefined => (line.trim() === '' ? undefined : (JSON.parse(line) as T));
  return new Dataset(
    new FileSource(
      files,
      lineFormat(options, async () => parse),
      options,
    ),
  );
}

/**
 * Comma-separated values (RFC 4180), a row an object by the columns' names; `{ xs, ys }` when `columnConfigs` marks labels. Types, defaults
 * and required values as in tf.data.csv.
 */
export function csv<Row = CsvRow | LabelledCsvRow>(files: Files, options: CsvOptions & SourceOptions = {}): Dataset<Row> {
  return new Dataset(new FileSource(files, csvFormat(options), options)) as unknown as Dataset<Row>;
}

/**
 * The records of IDX files (those of MNIST, plain or gzip): numbers of a file with one dimension (labels), columns of one with more
 * (images). Several files that belong together are read side by side: `idx({ image: 'train-images-idx3-ubyte', label:
 * 'train-labels-idx1-ubyte' })`; patterns are paired in the order of their names. Large files are shared in parts.
 */
export function idx<T = IdxRecord>(files: Files, options?: IdxOptions & SourceOptions): Dataset<T>;
export function idx<T = Record<string, IdxRecord>>(
  files: Readonly<Record<string, Files>>,
  options?: IdxOptions & SourceOptions,
): Dataset<T>;
export function idx(files: Files | Readonly<Record<string, Files>>, options: IdxOptions & SourceOptions = {}): Dataset<unknown> {
  if (typeof files === 'string' || Array.isArray(files)) {
    return new Dataset(
      new FileSource(
        files as Files,
        idxFormat(options, ([value]) => value),
        options,
      ),
    );
  }
  const names = Object.keys(files);
  if (names.length === 0) throw new TonyError('DATA_INVALID', 'idx has no files to read');
  const format = idxFormat(options, (values) => Object.fromEntries(names.map((name, index) => [name, values[index]])));
  return new Dataset(new FileSource(listerOfColumns(Object.values(files)), format, options));
}

/**
 * The n-th elements of several datasets together, as an array or by name: `zip({ xs: images, ys: labels })`. As long as the shortest. Each
 * rank reads all of them and takes its share: files that can be read side by side by one source (`idx({ ... })`) cost less.
 */
export function zip<const T extends readonly Dataset<unknown>[]>(
  datasets: T,
): Dataset<{ -readonly [Index in keyof T]: T[Index] extends Dataset<infer Element> ? Element : never }>;
export function zip<const T extends Readonly<Record<string, Dataset<unknown>>>>(
  datasets: T,
): Dataset<{ -readonly [Name in keyof T]: T[Name] extends Dataset<infer Element> ? Element : never }>;
export function zip(datasets: readonly Dataset<unknown>[] | Readonly<Record<string, Dataset<unknown>>>): Dataset<unknown> {
  const parts: readonly Dataset<unknown>[] = Object.values(datasets);
  if (parts.length === 0) throw new TonyError('DATA_INVALID', 'zip has no datasets to take elements from');
  if (parts.some(({ isBatched }) => isBatched !== parts[0]?.isBatched)) {
    throw new TonyError('DATA_INVALID', 'a dataset of batches and one of single elements cannot be zipped');
  }
  const names = Object.keys(datasets);
  const combine = (elements: readonly unknown[]) => Object.fromEntries(names.map((name, index) => [name, elements[index]]));
  const node = new ZipNode<unknown>(
    parts.map((part) => part.node),
    Array.isArray(datasets) ? (elements) => [...elements] : combine,
  );
  return new Dataset(node, parts[0]?.isBatched ?? false);
}

/**
 * Elements of several datasets, mixed: each element comes from one that is drawn by its weight, until all are at their ends. Each epoch
 * draws anew, the same in every run.
 */
export function sampleFrom<T>(datasets: readonly Dataset<T>[], options: SampleOptions = {}): Dataset<T> {
  const { weights = datasets.map(() => 1), seed = null } = options;
  if (weights.length !== datasets.length || datasets.length === 0) {
    throw new TonyError('DATA_INVALID', `sampleFrom has ${datasets.length} datasets and ${weights.length} weights`);
  }
  if (!weights.every((weight) => Number.isFinite(weight) && weight >= 0)) {
    throw new TonyError('DATA_INVALID', `the weights of sampleFrom are ${weights.join(', ')}; none may be negative`);
  }
  if (datasets.some(({ isBatched }) => isBatched !== datasets[0]?.isBatched)) {
    throw new TonyError('DATA_INVALID', 'datasets of batches and of single elements cannot be mixed');
  }
  const nodes = datasets.map(({ node }) => node);
  return new Dataset(new SampleNode(nodes, weights, seed), datasets[0]?.isBatched ?? false);
}

/** The files themselves, unread. */
export function files(names: Files, options: SourceOptions = {}): Dataset<DataFile> {
  return new Dataset(new FileSource(names, listedFiles, options));
}

/** A file as one element, with its bytes: images, say. */
export function binaryFiles(names: Files, options: SourceOptions & ContentsOptions = {}): Dataset<FileContents> {
  return new Dataset(contentsNode(new FileSource(names, listedFiles, options), options));
}

/**
 * Image files (PNG, JPEG, BMP, GIF) with the numbers of the folders that they lie in as labels, as of Keras' image_dataset_from_directory:
 * `images(tf, 'flowers/*', { size: [180, 180], channels: 3 })`. The folders are numbered by their names (`imageClasses` gives them). Needs the native
 * backend.
 * @throws TonyError BACKEND_UNFIT where the backend cannot decode images.
 */
export function images(tf: typeof tfjs, files: Files, options: ImageOptions = {}): Dataset<ImageElement> {
  return new Dataset(new ImageNode(tf, files, options));
}

/** The names of the classes of `images`: the n-th is that of label n. */
export async function imageClasses(storage: Storage, files: Files): Promise<readonly string[]> {
  return (await labelledImages(storage, files)).classNames;
}

/** Elements that are at hand. */
export function fromArray<T>(elements: readonly T[]): Dataset<T> {
  return new Dataset(new IterableNode(() => elements));
}

/** Elements that a function makes: called for each pass, and it has to make the same ones each time, on each rank. */
export function fromGenerator<T>(iterate: () => Iterable<T> | AsyncIterable<T>): Dataset<T> {
  return new Dataset(new IterableNode(iterate));
}

/** A dataset of tf.data that makes batches. Every rank reads all of it and takes its share of the elements. */
export function fromTfDataset<T = unknown>(dataset: tfjs.data.Dataset<tfjs.TensorContainer>): Dataset<T> {
  // One at a time: its elements are tensors, and memory.
  return new Dataset(new IterableNode(() => elementsOfTfData<T>(dataset), 1), true);
}
