import type { Json } from '../../../platform/json-value.ts';
import type { DataFile } from './file-set.ts';
import type { ReadContext } from './read-context.ts';
import type { Chunk } from './stream.ts';

/** An independently readable part of a file: the records that begin in bytes `from` to `to`. */
export interface Split {
  readonly file: DataFile;
  readonly from: number;
  readonly to: number;
}

/** Reads one kind of file. */
export interface FileFormat<T> {
  /** Whether records can be found from any offset in the file. */
  isSplittable(file: DataFile): boolean;
  /** Reads from the position of an earlier chunk, or from the beginning. The `from` of a chunk is a position in the split. */
  read(split: Split, from: Json, context: ReadContext): AsyncGenerator<Chunk<T>, void>;
}
