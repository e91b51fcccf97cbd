import type { Readable } from 'node:stream';
import type { ByteSource } from '../platform/byte-source.ts';

/**
 * One interface over hdfs:// and file://. Every path is a complete URI. Operations throw a TonyError: NOT_FOUND for missing files,
 * ACCESS_DENIED for denied access, HDFS_UNREACHABLE for an unreachable cluster.
 */
export interface Storage {
  /** Streams the bytes from `offset` on: `length` bytes, or up to the end. */
  open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable>;
  read(uri: string): Promise<Buffer>;
  /**
   * Atomic: writes to a temporary name in the same folder and renames it. Creates missing parents by default. `ifAbsent`
   * (create-exclusive): when the file exists, nothing changes and the result is false; of two concurrent calls, exactly one returns true.
   */
  write(uri: string, data: ByteSource, options?: WriteOptions): Promise<boolean>;
  /** Returns null when the path does not exist. */
  stat(uri: string): Promise<Entry | null>;
  /** Lists a folder, sorted by name; returns an empty list when the folder does not exist. */
  list(uri: string, options?: ListingOptions): Promise<Entry[]>;
  /** Atomic. Returns false and changes nothing when `from` does not exist or `to` exists. */
  rename(from: string, to: string): Promise<boolean>;
  /** Removes a file, or a folder with its content, atomically even during concurrent writes; returns false when the path does not exist. */
  remove(uri: string): Promise<boolean>;
  makeFolder(uri: string, permission?: number): Promise<void>;
  close(): void;
}

export interface ListingOptions {
  /** Returns at most this number of entries, the first by name, and fetches no more. */
  readonly most?: number;
  /**
   * Returns the raw content of the folder, including temporary files that are being written or that a crashed writer left, and reports each
   * symbolic link as a file. By default temporary files are omitted and links are followed.
   */
  readonly raw?: boolean;
}

export interface WriteOptions {
  readonly ifAbsent?: boolean;
  /** If false, throws NOT_FOUND when the folder does not exist, so that a late write does not recreate a removed folder. */
  readonly makeParents?: boolean;
  /** e.g. 0o600; default 0o644. */
  readonly permission?: number;
  /** Length of a stream, if known: it speeds up uploads to HDFS. */
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
