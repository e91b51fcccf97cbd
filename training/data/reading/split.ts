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

export interface FileFormat<T> {
  /** Returns whether reading can start at any offset in the file. */
  isSplittable(file: DataFile): boolean;
  /**
   * Returns the offsets at which groups of records begin, in ascending order. Splits then begin only at these offsets, so that each split
   * has records. By default, a split may begin anywhere.
   */
  borders?(file: DataFile, context: ReadContext): Promise<readonly number[]>;
  /** Reads a split. `from` is the position of an earlier chunk, or null to start at the beginning of the split. */
  read(split: Split, from: Json, context: ReadContext): AsyncGenerator<Chunk<T>, void>;
}
