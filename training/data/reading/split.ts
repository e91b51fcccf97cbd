import type { Json } from '../../../platform/json-value.ts';
import type { DataFile } from './file-set.ts';
import type { ReadContext } from './read-context.ts';
import type { Chunk } from './stream.ts';

/** A part of a file that can be read independently: the records that begin in bytes `from` to `to` (exclusive). */
export interface Split {
  readonly file: DataFile;
  readonly from: number;
  readonly to: number;
}

/** Reads the records of files in one format. */
export interface FileFormat<T> {
  /** Returns whether reading can start at any offset in the file. */
  isSplittable(file: DataFile): boolean;
  /** Reads a split from position `from`, which is the `from` of an earlier chunk, or null for the beginning of the split. */
  read(split: Split, from: Json, context: ReadContext): AsyncGenerator<Chunk<T>, void>;
}
