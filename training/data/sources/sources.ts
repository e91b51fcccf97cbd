import type * as tfjs from '@tensorflow/tfjs';
import {
  checkOptionValues,
  isAnything,
  isFlag,
  isObject,
  isOneOf,
  isOptions,
  isRecordOf,
  isText,
  isTexts,
  isWhole,
  type OptionRule,
  type OptionRules,
} from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Storage } from '../../../storage/storage.ts';
import { type ContentsOptions, contentsNode, type FileContents, listedFiles } from '../formats/file-format.ts';
import { type IdxOptions, type IdxRecord, idxFormat } from '../formats/idx-format.ts';
import { parseJsonLine } from '../formats/json-line.ts';
import { eachLine, lineFormat, type TextOptions } from '../formats/line-format.ts';
import type { SourceOptions } from '../formats/source-options.ts';
import { type AvroOptions, avroFormat } from '../formats/tables/avro-format.ts';
import { type ColumnConfig, type ColumnConfigs, type CsvOptions, type CsvRowOf, csvFormat, labelsOf } from '../formats/tables/csv.ts';
import { type ParquetOptions, parquetFormat } from '../formats/tables/parquet-format.ts';
import type { TableRow } from '../formats/tables/table-values.ts';
import { type RecordOptions, tfRecordFormat } from '../formats/tfrecord-format.ts';
import type { LocalCopyOptions } from '../local-copy/local-blocks.ts';
import { deal } from '../reading/deal.ts';
import { disposeElement } from '../reading/dispose.ts';
import type { DataFile, Files } from '../reading/file-set.ts';
import { InputFiles } from '../reading/input-files.ts';
import { checkIterable, type DatasetNode, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import { CHUNK_ELEMENTS, type Chunk, streamOf } from '../reading/stream.ts';
import { type SampleOptions, sampleNode } from '../transforms/sample.ts';
import { zipNode } from '../transforms/zip.ts';
import { Dataset, nodeOf } from './dataset.ts';
import { FileSource } from './file-source.ts';
import { type ImageElement, type ImageOptions, imageNode, labelledImages } from './image-files.ts';
import { tableNode } from './table-node.ts';

/**
 * Yields elements from memory or from a function. Each reader iterates over all elements and uses its share.
 *
 * State: the number of elements before the position.
 */
function iterableNode<T>(
  iterate: (missedPasses: number) => Iterable<T> | AsyncIterable<T>,
  chunkElements = CHUNK_ELEMENTS,
): DatasetNode<T> {
  async function* chunks(skip: number, { missedPasses = 0, signal }: ReadContext): AsyncGenerator<Chunk<T>, void> {
    let index = 0;
    const elements = iterate(missedPasses);
    checkIterable(elements, 'the dataset received', [Symbol.iterator, Symbol.asyncIterator]);
    for await (const all of inChunks(elements, chunkElements, signal)) {
      const items = all.slice(Math.max(0, skip - index));
      disposeElement(all.slice(0, all.length - items.length));
      index += all.length;
      if (items.length > 0) {
        yield { items, from: index - items.length, bytes: 0 };
      }
    }
  }
  return {
    open(context, from) {
      refuseSplits(context, 'fromArray, fromGenerator or fromTfDataset', 'its elements do not come from files');
      return deal((at) => streamOf(chunks((at as number | null) ?? 0, context)), context.share, from);
    },
  };
}

/** Groups elements into chunks, because an `await` for each element often costs more than processing it. */
async function* inChunks<T>(elements: Iterable<T> | AsyncIterable<T>, size: number, signal: AbortSignal): AsyncGenerator<T[], void> {
  let items: T[] = [];
  if (Symbol.iterator in elements) {
    for (const item of elements) {
      if (items.push(item) < size) {
        continue;
      }
      signal.throwIfAborted();
      yield items;
      items = [];
    }
  } else {
    for await (const item of elements) {
      signal.throwIfAborted();
      if (items.push(item) < size) {
        continue;
      }
      yield items;
      items = [];
    }
  }
  if (items.length > 0) {
    yield items;
  }
}

/**
 * Yields the elements of a tf.data dataset. Every reader must get the same elements in the same order. Like `model.fitDataset`, it also
 * uses an element that a generator returns together with `done: true`.
 * @param missedPasses the passes read before a restart. `shuffle` draws a new order for each iterator, so the iterators of these passes are
 *   created again.
 */
async function* elementsOfTfData<T>(dataset: tfjs.data.Dataset<tfjs.TensorContainer>, missedPasses: number): AsyncGenerator<T, void> {
  for (let pass = 0; pass < missedPasses; pass++) {
    await dataset.iterator();
  }
  const iterator = await dataset.iterator();
  for (;;) {
    const { done, value } = await iterator.next();
    if (!done || (value !== null && value !== undefined)) {
      yield value as T;
    }
    if (done) {
      return;
    }
  }
}

const isLocalCopy = isOptions<LocalCopyOptions>({ maxBytes: isWhole(0), keepFreeBytes: isWhole(0), folder: isText });

const SOURCE: OptionRules<SourceOptions> = {
  shardPolicy: isOneOf('auto', 'file', 'data', 'off'),
  splitBytes: isWhole(1),
  localCopy: (value, name) => (typeof value === 'boolean' || isLocalCopy(value, name) === null ? null : 'true, false or an object'),
  refresh: isOneOf('never', 'epoch'),
};

const compression = isOneOf('auto', 'none', 'gzip', 'zlib');
const RECORDS: OptionRules<RecordOptions> = { compression, skipDamaged: isFlag, maxRecordBytes: isWhole(1) };
const TEXT: OptionRules<TextOptions> = { ...RECORDS, encoding: isOneOf('utf-8', 'latin1') };
const isColumns: OptionRule = (value, name) =>
  isTexts(value) ?? ((value as readonly string[]).length === 0 ? `a list of at least one column; without ${name}, all are read` : null);
const TABLE = { columns: isColumns, fill: isObject } as const;
const CONTENTS: OptionRules<ContentsOptions> = {
  parallelCalls: isWhole(1),
  maxRecordBytes: isWhole(1),
  localCopy: SOURCE.localCopy,
};

const isColumnConfig = isOptions<ColumnConfig>({
  required: isFlag,
  dtype: isOneOf('float32', 'int32', 'bool', 'string'),
  default: (value) => (['number', 'boolean', 'string'].includes(typeof value) ? null : 'a number, a string, true or false'),
  isLabel: isFlag,
});
const CSV: OptionRules<CsvOptions> = {
  ...TEXT,
  hasHeader: isFlag,
  columnNames: isTexts,
  columnConfigs: isRecordOf(isColumnConfig),
  configuredColumnsOnly: isFlag,
  delimiter: isText,
  missingValues: isTexts,
  isSplittable: isFlag,
};
const IDX: OptionRules<IdxOptions> = { compression, maxRecordBytes: isWhole(1) };
const PARQUET: OptionRules<ParquetOptions> = { ...TABLE, maxGroupBytes: isWhole(1) };
const AVRO: OptionRules<AvroOptions> = { ...TABLE, maxRecordBytes: isWhole(1) };
const IMAGES: OptionRules<ImageOptions> = {
  ...SOURCE,
  ...CONTENTS,
  classNames: isTexts,
  skipDamaged: isFlag,
  channels: isOneOf(0, 1, 3, 4),
  size: (value) =>
    Array.isArray(value) && value.length === 2 && value.every((each) => isWhole(1)(each) === null) ? null : '[height, width]',
  interpolation: isOneOf('bilinear', 'nearest'),
  cropToAspectRatio: isFlag,
};

/** The rules for the options of each source, by the name of its function. */
const RULES = {
  tfRecords: { ...SOURCE, ...RECORDS },
  lines: { ...SOURCE, ...TEXT },
  jsonl: { ...SOURCE, ...TEXT },
  csv: { ...SOURCE, ...CSV },
  idx: { ...SOURCE, ...IDX },
  parquet: { ...SOURCE, ...PARQUET },
  avro: { ...SOURCE, ...AVRO },
  files: SOURCE,
  binaryFiles: { ...SOURCE, ...CONTENTS },
  images: IMAGES,
  sampleFrom: { weights: isAnything, seed: isWhole(0) },
} as const;

/** @throws TonyError USAGE for an unknown option or an invalid value. */
function checkSourceOptions(source: keyof typeof RULES, options: object): void {
  checkOptionValues<object>(source, options, RULES[source]);
}

/*
 * Dataset sources. Files are URIs (hdfs://, s3://, file://) or paths. Their names may be patterns (`part-*`, `{train,extra}-[0-9]*`), and a
 * folder stands for all of its files.
 */

/**
 * Reads records from TFRecord files and verifies their checksums. A record is a view of a larger buffer, so copy records that you keep for
 * a long time. TFRecord files cannot be split. To give each rank the same amount of data, make the number of files a multiple of the number
 * of ranks.
 */
export function tfRecords(files: Files, options: RecordOptions & SourceOptions = {}): Dataset<Buffer> {
  checkSourceOptions('tfRecords', options);
  return new Dataset(new FileSource(files, tfRecordFormat(options), options));
}

/** Reads lines from text files, including empty lines. The lines do not include their line breaks, which are LF or CRLF. */
export function lines(files: Files, options: TextOptions & SourceOptions = {}): Dataset<string> {
  checkSourceOptions('lines', options);
  return new Dataset(
    new FileSource(
      files,
      lineFormat(options, async () => eachLine((line) => line)),
      options,
    ),
  );
}

/**
 * Reads files with one JSON value per line. Skips empty lines. An integer that a number does not represent exactly is an error, as in the
 * other formats.
 */
export function jsonl<T = unknown>(files: Files, options: TextOptions & SourceOptions = {}): Dataset<T> {
  checkSourceOptions('jsonl', options);
  const parse = (line: string): T | undefined => (line.trim() === '' ? undefined : (parseJsonLine(line) as T));
  return new Dataset(
    new FileSource(
      files,
      lineFormat(options, async () => eachLine(parse)),
      options,
    ),
  );
}

/**
 * Reads comma-separated values (RFC 4180). A row is an object with one field per column. If `columnConfigs` marks labels, a row has the
 * form `{ xs, ys }`. Types, defaults and required values work as they do in tf.data.csv. `batch` directly after this function copies whole
 * columns, without an object for each row.
 */
export function csv<_Row extends never = never, const Configs extends ColumnConfigs = Readonly<Record<never, ColumnConfig>>>(
  files: Files,
  options?: CsvOptions<Configs> & SourceOptions,
): Dataset<CsvRowOf<Configs>>;
export function csv<Row>(files: Files, options?: CsvOptions & SourceOptions): Dataset<Row>;
export function csv(files: Files, options: CsvOptions & SourceOptions = {}): Dataset<unknown> {
  checkSourceOptions('csv', options);
  return new Dataset(tableNode(new FileSource(files, csvFormat(options), options), labelsOf(options)));
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
  checkSourceOptions('idx', options);
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
    throw new TonyError('USAGE', 'idx requires at least one file');
  }
  const format = idxFormat(options, (values) => Object.fromEntries(names.map((name, index) => [name, values[index]])));
  return new Dataset(new FileSource(new InputFiles(Object.values(files), options.refresh).list, format, options));
}

/**
 * Reads rows from Parquet files as objects with one field per column. Reads only the selected `columns`. Dates become days since 1970, and
 * timestamps milliseconds since 1970. Lists of numbers become typed arrays, and bytes become Buffers. A missing value is an error unless
 * `fill` replaces it. Large files are split among the ranks by row groups. `batch` directly after this function copies whole columns, without
 * an object for each row.
 * @throws TonyError DATA_INVALID, while elements are read, if a file is damaged or no tensor can hold a type or value.
 */
export function parquet<Row = TableRow>(files: Files, options: ParquetOptions & SourceOptions = {}): Dataset<Row> {
  checkSourceOptions('parquet', options);
  return new Dataset(tableNode(new FileSource(files, parquetFormat(options), options))) as unknown as Dataset<Row>;
}

/**
 * Reads records from Avro files as rows, with the same values as `parquet`. The files may be compressed with deflate, snappy or zstandard.
 * Large files are split among the ranks by blocks.
 * @throws TonyError DATA_INVALID, while elements are read, if a file is damaged or no tensor can hold a type or value.
 */
export function avro<Row = TableRow>(files: Files, options: AvroOptions & SourceOptions = {}): Dataset<Row> {
  checkSourceOptions('avro', options);
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
  const nodes = parts.map((part) => nodeOf(part, 'zip received'));
  if (parts.length === 0) {
    throw new TonyError('USAGE', 'zip requires at least one dataset');
  }
  if (parts.some(({ isBatched }) => isBatched !== parts[0]?.isBatched)) {
    throw new TonyError('USAGE', 'batched and unbatched datasets cannot be zipped');
  }
  const names = Object.keys(datasets);
  const combine = (elements: readonly unknown[]) => Object.fromEntries(names.map((name, index) => [name, elements[index]]));
  const node = zipNode<unknown>(nodes, Array.isArray(datasets) ? (elements) => [...elements] : combine);
  return new Dataset(node, parts[0]?.isBatched ?? false);
}

/**
 * Mixes the elements of several datasets until all datasets have ended. The weights determine how likely each element is to come from each
 * dataset. The selection differs between epochs, but is the same in every run.
 */
export function sampleFrom<T>(datasets: readonly Dataset<T>[], options: SampleOptions = {}): Dataset<T> {
  checkSourceOptions('sampleFrom', options);
  const nodes = datasets.map((dataset) => nodeOf(dataset, 'sampleFrom received'));
  const { weights = datasets.map(() => 1), seed = null } = options;
  if (weights.length !== datasets.length || datasets.length === 0) {
    throw new TonyError('USAGE', `sampleFrom has ${datasets.length} datasets and ${weights.length} weights`);
  }
  if (!weights.every((weight) => Number.isFinite(weight) && weight >= 0)) {
    throw new TonyError('USAGE', `the weights of sampleFrom are ${weights.join(', ')}, but must not be negative`);
  }
  if (datasets.some(({ isBatched }) => isBatched !== datasets[0]?.isBatched)) {
    throw new TonyError('USAGE', 'batched and unbatched datasets cannot be mixed');
  }
  return new Dataset(sampleNode(nodes, weights, seed), datasets[0]?.isBatched ?? false);
}

/** Yields one element for each file, without its contents. */
export function files(names: Files, options: SourceOptions = {}): Dataset<DataFile> {
  checkSourceOptions('files', options);
  return new Dataset(new FileSource(names, listedFiles, options));
}

/** Yields one element for each file, with its contents. */
export function binaryFiles(names: Files, options: SourceOptions & ContentsOptions = {}): Dataset<FileContents> {
  checkSourceOptions('binaryFiles', options);
  return new Dataset(contentsNode(new FileSource(names, listedFiles, options), options));
}

/**
 * Reads PNG, JPEG, BMP and GIF files and labels them with the numbers of their folders, like Keras' image_dataset_from_directory. An
 * example is `images(tf, 'flowers/*', { size: [180, 180], channels: 3 })`. `imageClasses` returns the folder names in label order. Requires
 * the native backend.
 * @throws TonyError BACKEND_UNSUPPORTED if the backend cannot decode images.
 */
export function images(tf: typeof tfjs, files: Files, options: ImageOptions = {}): Dataset<ImageElement> {
  checkSourceOptions('images', options);
  return new Dataset(imageNode(tf, files, options));
}

/** Returns the class names in the order of the labels that `images` assigns if it gets no `classNames`. */
export async function imageClasses(storage: Storage, files: Files): Promise<readonly string[]> {
  return (await labelledImages({ storage }, files)).classNames;
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
