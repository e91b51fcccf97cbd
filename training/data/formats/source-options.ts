import type { LocalCopyOptions } from '../local-copy/local-blocks.ts';

export interface SourceOptions {
  /**
   * How readers share the data. `file`: whole files or parts of them. `data`: each its records of all files. `off`: each reads everything.
   * `auto`, the default: by file if there are at least as many files (or parts) as readers, otherwise by record.
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
