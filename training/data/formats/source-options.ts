import type { LocalCopyOptions } from '../local-copy/local-blocks.ts';
import type { Refresh } from '../reading/input-files.ts';

export interface SourceOptions {
  /**
   * How a dataset's readers divide the data among themselves. With `file`, each reader gets whole files or parts of files. With `data`,
   * each of n readers reads all files and uses every n-th record. With `off`, each reader gets all records. With `auto`, the default,
   * `file` applies if there are at least as many files or parts as readers, and `data` otherwise.
   */
  readonly shardPolicy?: 'auto' | 'file' | 'data' | 'off';
  /** For files that can be split, the maximum size of one part in bytes. Default: 64 MiB. */
  readonly splitBytes?: number;
  /**
   * Whether this reader copies its data to the local disk, so that later epochs read and verify the copies. The reader then has the same
   * share of the data in every epoch. Default: false.
   */
  readonly localCopy?: boolean | LocalCopyOptions;
  /**
   * When the job lists the source's files. With `never`, the default, the job lists them once, and files that appear later belong to no
   * epoch. With `epoch`, the job lists them once for each epoch.
   */
  readonly refresh?: Refresh;
}
