import type { Readable } from 'node:stream';
import type { ByteSource } from '../platform/byte-source.ts';

/**
 * File access for HDFS URIs (hdfs://, webhdfs://, swebhdfs://, viewfs://), s3:// and file:// URIs. Operations throw a TonyError with one of
 * these codes: NOT_FOUND for a missing file, ACCESS_DENIED, HDFS_UNREACHABLE or S3_UNREACHABLE.
 *
 * An object store has no folders: a folder exists while an object below it exists, or after `makeFolder`. `rename` of a folder therefore
 * fails with STORAGE_REFUSED, the removal of a folder is not atomic, and entries have neither an owner nor permissions.
 */
export interface Storage {
  /** Streams a file from `offset` (default 0) for `length` bytes, or to the end. */
  open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable>;
  read(uri: string): Promise<Buffer>;
  /**
   * Writes a file atomically: writes a temporary file in the same folder, then renames it. Returns false if `ifAbsent` is set and the path
   * exists, otherwise true.
   */
  write(uri: string, data: ByteSource, options?: WriteOptions): Promise<boolean>;
  /** Returns null if the path does not exist. */
  stat(uri: string): Promise<Entry | null>;
  /** Lists a folder, sorted by name. Returns an empty list if the folder does not exist. */
  list(uri: string, options?: ListingOptions): Promise<Entry[]>;
  /** Renames a file or folder atomically. Returns false without any change if `from` does not exist or `to` exists. */
  rename(from: string, to: string): Promise<boolean>;
  /**
   * Removes a file, or a folder with its content. The removal is atomic even during concurrent writes. Returns false if the path does not
   * exist.
   */
  remove(uri: string): Promise<boolean>;
  /** Creates a folder and its missing parents. Succeeds if the folder exists. `permission` defaults to 0o755. */
  makeFolder(uri: string, permission?: number): Promise<void>;
  close(): void;
}

export interface ListingOptions {
  /** Maximum number of entries to return, in alphabetical order. */
  readonly most?: number;
  /**
   * Includes temporary files of current and crashed writers, and lists each symbolic link as a file. By default, temporary files are
   * omitted and symbolic links are followed.
   */
  readonly raw?: boolean;
}

export interface WriteOptions {
  /** Keeps an existing file. Of several concurrent writers, exactly one succeeds. */
  readonly ifAbsent?: boolean;
  /**
   * If false, the write fails with NOT_FOUND if the folder does not exist. A late write then cannot recreate a removed folder. HttpFS always
   * creates missing folders, so the client checks for the folder just before it creates the file.
   */
  readonly makeParents?: boolean;
  /** File permissions, e.g. 0o600; default 0o644. */
  readonly permission?: number;
  /** Length of a stream in bytes. If it is known, uploads to HDFS are faster. */
  readonly length?: number;
  /** Receives the number of bytes sent so far. */
  readonly onProgress?: (bytes: number) => void;
}

export interface Entry {
  readonly uri: string;
  readonly name: string;
  readonly type: 'file' | 'folder';
  /** Size in bytes. */
  readonly size: number;
  /** Time in ms since the epoch. */
  readonly modifiedAt: number;
  /** Permissions, e.g. 0o644. */
  readonly permission: number;
  readonly owner: string;
  /** True for a file or folder in an encryption zone of HDFS. */
  readonly encrypted?: boolean;
}
