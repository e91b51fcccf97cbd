import type { LocalCopyOptions } from '../local-copy/local-blocks.ts';

export interface SourceOptions {
  /**
   * How readers share the data. `file`: each reader gets whole files or parts of files. `data`: each of n readers reads all files and takes
   * every n-th record. `off`: each reader gets all records. `auto`, the default: `file` if there are at least as many files (or parts) as
   * readers, otherwise `data`.
   */
  readonly shardPolicy?: 'auto' | 'file' | 'data' | 'off';
  /** The maximum size of the parts of splittable files; 64 MiB by default. */
  readonly splitBytes?: number;
  /**
   * Copies this reader's share of the data to the local disk, and reads and verifies the copies in later epochs; false by default. The
   * share is the same in every epoch.
   */
  readonly localCopy?: boolean | LocalCopyOptions;
}
