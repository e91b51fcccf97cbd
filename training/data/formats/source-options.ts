import type { LocalCopyOptions } from '../local-copy/local-blocks.ts';

export interface SourceOptions {
  /**
   * How readers share the data. `file`: each reader gets whole files or parts of files. `data`: each reader reads all files and takes every
   * n-th record. `off`: each reader gets everything. `auto`, the default: `file` if there are at least as many files (or parts) as readers,
   * otherwise `data`.
   */
  readonly shardPolicy?: 'auto' | 'file' | 'data' | 'off';
  /** The maximum size of the parts of splittable files; 64 MiB by default. */
  readonly splitBytes?: number;
  /**
   * Copies the data that this reader reads (its own share, the same files in every epoch) to the local disk, and reads the verified copies
   * in later epochs; false by default.
   */
  readonly localCopy?: boolean | LocalCopyOptions;
}
