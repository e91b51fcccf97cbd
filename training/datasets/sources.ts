import type * as tfjs from '@tensorflow/tfjs';
import { type CsvOptions, type CsvRow, csvFormat, type LabelledCsvRow } from './csv.ts';
import { Dataset } from './dataset.ts';
import { contentsNode, type FileContents, listedFiles } from './file-format.ts';
import type { DataFile, Files } from './file-set.ts';
import { FileSource, type SourceOptions } from './file-source.ts';
import { lineFormat } from './line-format.ts';
import { elementsOfTfData, IterableNode } from './memory.ts';
import { type RecordOptions, tfRecordFormat } from './tfrecord-format.ts';

/*
 * Where datasets begin. Files are named by URIs (hdfs://, file://) or paths; names may be patterns (`part-*`, `{train,extra}-[0-9]*`), and a
 * folder stands for the files in it.
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
 * Comma-separated values (RFC 4180), a row an object by the columns' names; `{ xs, ys }` when `columnConfigs` marks labels. Types, defaults and
 * required values as in tf.data.csv.
 */
export function csv<Row = CsvRow | LabelledCsvRow>(files: Files, options: CsvOptions & SourceOptions = {}): Dataset<Row> {
  return new Dataset(new FileSource(files, csvFormat(options), options)) as unknown as Dataset<Row>;
}

/** The files themselves, unread. */
export function files(names: Files, options: SourceOptions = {}): Dataset<DataFile> {
  return new Dataset(new FileSource(names, listedFiles, options));
}

/** A file as one element, with its bytes: images, say. */
export function binaryFiles(
  names: Files,
  options: SourceOptions & Pick<RecordOptions, 'maxRecordBytes'> & { readonly parallelCalls?: number } = {},
): Dataset<FileContents> {
  const listed = new FileSource(names, listedFiles, options);
  return new Dataset(contentsNode(listed, options.parallelCalls ?? 8, options.maxRecordBytes));
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
