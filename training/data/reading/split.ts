import type { Json } from '../../../platform/json-value.ts';
import type { DataFile } from './file-set.ts';
import type { ReadContext } from './read-context.ts';
import type { Chunk } from './stream.ts';

/** A part of a file that can be read on its own. The split contains the records that begin in bytes `from` to `to` (exclusive). */
export interface Split {
  readonly file: DataFile;
  readonly from: number;
  readonly to: number;
}

export interface FileFormat<T> {
  /** Returns true if a split of the file may begin anywhere. */
  isSplittable(file: DataFile): boolean;
  /**
   * Returns the offsets at which groups of records begin, in ascending order. Each split then begins at one of these offsets, so no split
   * is empty. By default, a split may begin anywhere.
   */
  borders?(file: DataFile, context: ReadContext): Promise<readonly number[]>;
  /** Reads a split. `from` is the position of an earlier chunk, or null for the beginning of the split. */
  read(split: Split, from: Json, context: ReadContext): AsyncGenerator<Chunk<T>, void>;
}
