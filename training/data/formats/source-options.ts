import type { LocalCopyOptions } from '../local-copy/local-blocks.ts';

export interface SourceOptions {
  /**
   * How readers share the data. `file`: each reader gets whole files or parts of files. `data`: each of n readers reads all files and uses
   * every n-th record. `off`: each reader gets all records. `auto`, the default, selects `file` if there are at least as many files (or
   * parts) as readers, otherwise `data`.
   */
  readonly shardPolicy?: 'auto' | 'file' | 'data' | 'off';
  /** The maximum size in bytes of each part of a splittable file; 64 MiB by default. */
  readonly splitBytes?: number;
  /**
   * Copies this reader's share of the data to the local disk; off by default. Later epochs read and verify the copies. The share is the
   * same in every epoch.
   */
  readonly localCopy?: boolean | LocalCopyOptions;
}
