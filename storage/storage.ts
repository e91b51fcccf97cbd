import type { Readable } from 'node:stream';
import type { ByteSource } from '../platform/byte-source.ts';

/**
 * A file system for hdfs:// and file:// URIs. Operations throw a TonyError: NOT_FOUND for missing files, ACCESS_DENIED for denied access,
 * HDFS_UNREACHABLE for an unreachable cluster.
 */
export interface Storage {
  /** Streams the file from `offset` (default 0): `length` bytes, or up to the end. */
  open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable>;
  read(uri: string): Promise<Buffer>;
  /**
   * Writes a file atomically: writes a temporary file in the same folder, then renames it. Returns true, or false if `ifAbsent` is set and
   * the path exists.
   */
  write(uri: string, data: ByteSource, options?: WriteOptions): Promise<boolean>;
  /** Returns null when the path does not exist. */
  stat(uri: string): Promise<Entry | null>;
  /** Lists a folder, sorted by name; returns an empty list when the folder does not exist. */
  list(uri: string, options?: ListingOptions): Promise<Entry[]>;
  /** Renames a file or folder atomically. Returns false and changes nothing when `from` does not exist or `to` exists. */
  rename(from: string, to: string): Promise<boolean>;
  /** Removes a file, or a folder with its content. Atomic, even during concurrent writes. Returns false when the path does not exist. */
  remove(uri: string): Promise<boolean>;
  /** Creates a folder and its missing parents; accepts an existing folder. `permission` defaults to 0o755. */
  makeFolder(uri: string, permission?: number): Promise<void>;
  close(): void;
}

export interface ListingOptions {
  /** Returns only the first entries by name, at most this number. */
  readonly most?: number;
  /**
   * Includes the temporary files of current and crashed writers, and reports each symbolic link as a file. By default, temporary files are
   * omitted and links are followed.
   */
  readonly raw?: boolean;
}

export interface WriteOptions {
  /** Keeps an existing file: of several concurrent writers, exactly one succeeds. */
  readonly ifAbsent?: boolean;
  /** If false, the write fails with NOT_FOUND when the folder does not exist: a late write then cannot recreate a removed folder. */
  readonly makeParents?: boolean;
  /** e.g. 0o600; default 0o644. */
  readonly permission?: number;
  /** Length (bytes) of a stream; if given, uploads to HDFS are faster. */
  readonly length?: number;
  /** Called with the number of bytes sent so far. */
  readonly onProgress?: (bytes: number) => void;
}

export interface Entry {
  readonly uri: string;
  readonly name: string;
  readonly type: 'file' | 'folder';
  /** Bytes. */
  readonly size: number;
  /** ms since the epoch. */
  readonly modifiedAt: number;
  /** e.g. 0o644. */
  readonly permission: number;
  readonly owner: string;
}
