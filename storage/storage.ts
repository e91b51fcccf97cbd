import type { Readable } from 'node:stream';
import type { ByteSource } from '../platform/byte-source.ts';

/**
 * Access to files by URI: HDFS (hdfs://, webhdfs://, swebhdfs://, viewfs://), s3:// and file://. Common error codes are NOT_FOUND for a
 * missing file, ACCESS_DENIED, HDFS_UNREACHABLE and S3_UNREACHABLE.
 *
 * An object store has no real folders. A folder exists while there is an object below it, or after `makeFolder`. For this reason, renaming
 * a folder fails with STORAGE_DENIED, removing a folder is not atomic, and entries have neither an owner nor permissions of their own.
 */
export interface Storage {
  /** Streams `length` bytes of a file, starting at `offset`. By default, streams the whole file. */
  open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable>;
  read(uri: string): Promise<Buffer>;
  /**
   * Writes a file atomically, by writing a temporary file in the same folder and then renaming it. Returns false if `ifAbsent` is set and
   * the path exists, and true otherwise.
   */
  write(uri: string, data: ByteSource, options?: WriteOptions): Promise<boolean>;
  /** Returns a file or folder, or null if the path does not exist. */
  stat(uri: string): Promise<Entry | null>;
  /** Lists a folder, sorted by name. Returns an empty list if the folder does not exist. */
  list(uri: string, options?: ListingOptions): Promise<Entry[]>;
  /** Renames a file or folder atomically. Does nothing and returns false if `from` does not exist or `to` exists. */
  rename(from: string, to: string): Promise<boolean>;
  /**
   * Removes a file, or a folder with its content. The removal is atomic even if other processes are writing into the folder. Returns false
   * if the path does not exist.
   */
  remove(uri: string): Promise<boolean>;
  /** Creates a folder and its missing parents. Also succeeds if the folder exists. `permission` defaults to 0o755. */
  makeFolder(uri: string, permission?: number): Promise<void>;
  close(): void;
}

export interface ListingOptions {
  /** Maximum number of entries. Only the first ones in alphabetical order are returned. */
  readonly most?: number;
  /**
   * If true, the listing includes temporary files, which belong to current or crashed writers, and shows symbolic links as files. By
   * default, temporary files are omitted, and symbolic links are followed.
   */
  readonly raw?: boolean;
  /**
   * Called for each entry that cannot be read, and that is therefore not in the listing: a symbolic link without a target, or a name on the
   * local disk that is not valid UTF-8. May throw, which ends the listing.
   */
  readonly onUnreadable?: (name: string, reason: string) => void;
}

export interface WriteOptions {
  /** If true, an existing file is kept. Only one of several concurrent writers succeeds. */
  readonly ifAbsent?: boolean;
  /**
   * If false, the write fails with NOT_FOUND when the folder does not exist. This prevents a late write from recreating a removed folder.
   * Defaults to true. HttpFS always creates missing folders. On HttpFS, the client therefore checks for the folder just before it creates
   * the file.
   */
  readonly makeParents?: boolean;
  /** File permissions, e.g. 0o600. Defaults to 0o644. */
  readonly permission?: number;
  /** Length of a stream in bytes. A known length makes uploads to HDFS faster. */
  readonly length?: number;
  /** Called repeatedly with the number of bytes sent so far. */
  readonly onProgress?: (bytes: number) => void;
}

export interface Entry {
  readonly uri: string;
  readonly name: string;
  readonly type: 'file' | 'folder';
  /** Size in bytes. */
  readonly size: number;
  /** Time of the last modification, in ms since the epoch. */
  readonly modifiedAt: number;
  /** In an object store, a tag that changes whenever the object's contents change. */
  readonly etag?: string;
  /** Permissions, e.g. 0o644. */
  readonly permission: number;
  readonly owner: string;
  /** True for a file or folder in an HDFS encryption zone. */
  readonly encrypted?: boolean;
}
