import type { Readable } from 'node:stream';

/**
 * One interface over hdfs:// and file://. Every path is a whole URI. Missing files are a TonyError with code NOT_FOUND,
 * denied ones with code ACCESS_DENIED, an unreachable cluster with code HDFS_UNREACHABLE.
 */
export interface Storage {
  /** The bytes from `offset` on (`length` of them, or to the end). */
  open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable>;
  read(uri: string): Promise<Buffer>;
  /**
   * Whole or not at all: written under a temporary name beside it and renamed. Parents are made unless told otherwise.
   * `ifAbsent`: when the file is there already nothing changes and the answer is false (create-exclusive: of two writers one gets true).
   */
  write(uri: string, data: Uint8Array | AsyncIterable<Uint8Array>, options?: WriteOptions): Promise<boolean>;
  /** null when there is none. */
  stat(uri: string): Promise<Entry | null>;
  /** Empty when the folder is missing. Sorted by name. */
  list(uri: string): Promise<Entry[]>;
  /** False, and nothing changed, when `from` is missing or `to` exists. Atomic. */
  rename(from: string, to: string): Promise<boolean>;
  /** Folder or file, with everything in it, at once, whoever writes into it meanwhile; false when there was nothing. */
  remove(uri: string): Promise<boolean>;
  makeFolder(uri: string, permission?: number): Promise<void>;
  close(): void;
}

export interface WriteOptions {
  readonly ifAbsent?: boolean;
  /** False: NOT_FOUND where the folder is missing, so that a late write does not bring back what somebody has removed. */
  readonly makeParents?: boolean;
  /** e.g. 0o600; default 0o644. */
  readonly permission?: number;
  /** What a stream will give, where that is known: HDFS takes it faster then. */
  readonly length?: number;
  /** Called with the bytes sent so far. */
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
