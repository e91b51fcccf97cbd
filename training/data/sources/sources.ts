import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import type { Storage } from '../../../storage/storage.ts';
import { type CsvOptions, type CsvRow, csvFormat, type LabelledCsvRow } from '../formats/csv.ts';
import { type ContentsOptions, contentsNode, type FileContents, listedFiles } from '../formats/file-format.ts';
import { type IdxOptions, type IdxRecord, idxFormat } from '../formats/idx-format.ts';
import { lineFormat } from '../formats/line-format.ts';
import type { SourceOptions } from '../formats/source-options.ts';
import { type AvroOptions, avroFormat } from '../formats/tables/avro-format.ts';
import { type ParquetOptions, parquetFormat } from '../formats/tables/parquet-format.ts';
import type { TableRow } from '../formats/tables/table-values.ts';
import { type RecordOptions, tfRecordFormat } from '../formats/tfrecord-format.ts';
import { type DataFile, type Files, listerOfColumns } from '../reading/file-set.ts';
import { type SampleOptions, sampleNode } from '../transforms/sample.ts';
import { zipNode } from '../transforms/zip.ts';
import { Dataset } from './dataset.ts';
import { FileSource } from './file-source.ts';
import { type ImageElement, type ImageOptions, imageNode, labelledImages } from './image-files.ts';
import { elementsOfTfData, iterableNode } from './memory.ts';

/*
 * Dataset sources. Files are URIs (hdfs://, s3://, file://) or paths. Their names may be patterns (`part-*`, `{train,extra}-[0-9]*`), and a
 * folder stands for all of its files.
 */

/**
 * Reads records from TFRecord files and verifies their checksums. A record is a view of a larger buffer, so copy records that you keep for
 * a long time. TFRecord files cannot be split. To give each rank the same amount of data, make the number of files a multiple of the number
 * of ranks.
 */
export function tfrecords(files: Files, options: RecordOptions & SourceOptions = {}): Dataset<Buffer> {
  return new Dataset(new FileSource(files, tfRecordFormat(options), options));
}

/** Reads lines from UTF-8 text files, including empty lines. The lines do not include their line breaks. */
export function lines(files: Files, options: RecordOptions & SourceOptions = {}): Dataset<string> {
  return new Dataset(
    new FileSource(
      files,
      lineFormat(options, async () => (line: string) => line),
      options,
    ),
  );
}

/** Reads files with one JSON value per line. Skips empty lines. */
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
 * Reads comma-separated values (RFC 4180). A row is an object with one field per column. If `columnConfigs` marks labels, a row has the
 * form `{ xs, ys }`. Types, defaults and required values work as they do in tf.data.csv.
 */
export function csv<Row = CsvRow | LabelledCsvRow>(files: Files, options: CsvOptions & SourceOptions = {}): Dataset<Row> {
  return new Dataset(new FileSource(files, csvFormat(options), options)) as unknown as Dataset<Row>;
}

/**
 * Reads records from IDX files, the format of MNIST, which may be compressed with gzip. Records in files with one dimension, such as
 * labels, are numbers. Records in other files, such as images, are columns.
 *
 * If `files` is an object, each element is an object with one record per file, for example `idx({ image: 'train-images-idx3-ubyte', label:
 * 'train-labels-idx1-ubyte' })`. If the names are patterns, the matching files are paired in the order of their names. Large files are
 * split among the ranks.
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
  if (names.length === 0) {
    throw new TonyError('DATA_INVALID', 'idx requires at least one file');
  }
  const format = idxFormat(options, (values) => Object.fromEntries(names.map((name, index) => [name, values[index]])));
  return new Dataset(new FileSource(listerOfColumns(Object.values(files)), format, options));
}

/**
 * Reads rows from Parquet files as objects with one field per column. Reads only the selected `columns`. Dates become days since 1970, and
 * timestamps milliseconds since 1970. Lists of numbers become typed arrays, and bytes become Buffers. A missing value is an error unless
 * `fill` replaces it. Large files are split among the ranks by row groups.
 * @throws TonyError DATA_INVALID, while elements are read, if a file is damaged or no tensor can hold a type or value.
 */
export function parquet<Row = TableRow>(files: Files, options: ParquetOptions & SourceOptions = {}): Dataset<Row> {
  return new Dataset(new FileSource(files, parquetFormat(options), options)) as unknown as Dataset<Row>;
}

/**
 * Reads records from Avro files as rows, with the same values as `parquet`. The files may be compressed with deflate, snappy or zstandard.
 * Large files are split among the ranks by blocks.
 * @throws TonyError DATA_INVALID, while elements are read, if a file is damaged or no tensor can hold a type or value.
 */
export function avro<Row = TableRow>(files: Files, options: AvroOptions & SourceOptions = {}): Dataset<Row> {
  return new Dataset(new FileSource(files, avroFormat(options), options)) as unknown as Dataset<Row>;
}

/**
 * Combines the elements at the same index in several datasets into an array or an object, for example `zip({ xs: images, ys: labels })`.
 * Ends with the shortest dataset. Each rank reads all datasets completely and uses only its share. To combine files, a source such as
 * `idx({ ... })` is faster.
 */
export function zip<const T extends readonly Dataset<unknown>[]>(
  datasets: T,
): Dataset<{ -readonly [Index in keyof T]: T[Index] extends Dataset<infer Element> ? Element : never }>;
export function zip<const T extends Readonly<Record<string, Dataset<unknown>>>>(
  datasets: T,
): Dataset<{ -readonly [Name in keyof T]: T[Name] extends Dataset<infer Element> ? Element : never }>;
export function zip(datasets: readonly Dataset<unknown>[] | Readonly<Record<string, Dataset<unknown>>>): Dataset<unknown> {
  const parts: readonly Dataset<unknown>[] = Object.values(datasets);
  if (parts.length === 0) {
    throw new TonyError('DATA_INVALID', 'zip requires at least one dataset');
  }
  if (parts.some(({ isBatched }) => isBatched !== parts[0]?.isBatched)) {
    throw new TonyError('DATA_INVALID', 'batched and unbatched datasets cannot be zipped');
  }
  const names = Object.keys(datasets);
  const combine = (elements: readonly unknown[]) => Object.fromEntries(names.map((name, index) => [name, elements[index]]));
  const node = zipNode<unknown>(
    parts.map((part) => part.node),
    Array.isArray(datasets) ? (elements) => [...elements] : combine,
  );
  return new Dataset(node, parts[0]?.isBatched ?? false);
}

/**
 * Mixes the elements of several datasets until all datasets have ended. The weights determine how likely each element is to come from each
 * dataset. The selection differs between epochs, but is the same in every run.
 */
export function sampleFrom<T>(datasets: readonly Dataset<T>[], options: SampleOptions = {}): Dataset<T> {
  const { weights = datasets.map(() => 1), seed = null } = options;
  if (weights.length !== datasets.length || datasets.length === 0) {
    throw new TonyError('DATA_INVALID', `sampleFrom has ${datasets.length} datasets and ${weights.length} weights`);
  }
  if (!weights.every((weight) => Number.isFinite(weight) && weight >= 0)) {
    throw new TonyError('DATA_INVALID', `the weights of sampleFrom are ${weights.join(', ')}, but must not be negative`);
  }
  if (datasets.some(({ isBatched }) => isBatched !== datasets[0]?.isBatched)) {
    throw new TonyError('DATA_INVALID', 'batched and unbatched datasets cannot be mixed');
  }
  const nodes = datasets.map(({ node }) => node);
  return new Dataset(sampleNode(nodes, weights, seed), datasets[0]?.isBatched ?? false);
}

/** Yields one element for each file, without its contents. */
export function files(names: Files, options: SourceOptions = {}): Dataset<DataFile> {
  return new Dataset(new FileSource(names, listedFiles, options));
}

/** Yields one element for each file, with its contents. */
export function binaryFiles(names: Files, options: SourceOptions & ContentsOptions = {}): Dataset<FileContents> {
  return new Dataset(contentsNode(new FileSource(names, listedFiles, options), options));
}

/**
 * Reads PNG, JPEG, BMP and GIF files and labels them with the numbers of their folders, like Keras' image_dataset_from_directory. An
 * example is `images(tf, 'flowers/*', { size: [180, 180], channels: 3 })`. `imageClasses` returns the folder names in label order. Requires
 * the native backend.
 * @throws TonyError BACKEND_UNFIT if the backend cannot decode images.
 */
export function images(tf: typeof tfjs, files: Files, options: ImageOptions = {}): Dataset<ImageElement> {
  return new Dataset(imageNode(tf, files, options));
}

/** Returns the class names in the order of the labels that `images` assigns if it gets no `classNames`. */
export async function imageClasses(storage: Storage, files: Files): Promise<readonly string[]> {
  return (await labelledImages(storage, files)).classNames;
}

/** Creates a dataset from elements in memory. */
export function fromArray<T>(elements: readonly T[]): Dataset<T> {
  return new Dataset(iterableNode(() => elements));
}

/**
 * Creates a dataset from a function that produces elements. Each pass on each rank calls the function, which must always produce the same
 * elements.
 */
export function fromGenerator<T>(iterate: () => Iterable<T> | AsyncIterable<T>): Dataset<T> {
  return new Dataset(iterableNode(() => iterate()));
}

/** Converts a batched tf.data dataset. Every rank reads the whole dataset and uses its share of the batches. */
export function fromTfDataset<T = unknown>(dataset: tfjs.data.Dataset<tfjs.TensorContainer>): Dataset<T> {
  // Chunks of one element save memory, because the tensors stay in memory until they are disposed.
  return new Dataset(
    iterableNode((missedPasses) => elementsOfTfData<T>(dataset, missedPasses), 1),
    true,
  );
}
