import type { Readable } from 'node:stream';
import type { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import type { ByteSource } from '../platform/byte-source.ts';
import { TonyError } from '../platform/errors.ts';
import { FileStorage } from './file-storage.ts';
import { HdfsStorage, type HdfsStorageOptions } from './hdfs-storage.ts';
import type { FindS3Connection } from './s3/s3-connection.ts';
import { S3Storage } from './s3-storage.ts';
import type { Entry, ListingOptions, Storage, WriteOptions } from './storage.ts';
import { parseUri } from './uri.ts';

export type StorageOptions = Omit<HdfsStorageOptions, 'hadoop'> & {
  /** The cluster's configuration. Null if no cluster is configured. In that case, operations on HDFS URIs fail. */
  readonly hadoop: HadoopConfiguration | null;
  /** Finds a bucket's object store. Called for the first URI of each bucket. If it is undefined, operations on s3:// URIs fail. */
  readonly s3?: FindS3Connection;
};

/** Creates a `Storage` for file://, HDFS and s3:// URIs. */
export function createStorage(options: StorageOptions): Storage {
  return new StorageByScheme(options);
}

class StorageByScheme implements Storage {
  readonly #file = new FileStorage();
  readonly #hdfs: HdfsStorage | null;
  readonly #s3: S3Storage;

  constructor({ hadoop, s3 = noConnection, ...options }: StorageOptions) {
    this.#s3 = new S3Storage(s3);
    this.#hdfs = hadoop === null ? null : new HdfsStorage({ hadoop, ...options });
  }

  async open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable> {
    return this.#of(uri).open(uri, range);
  }

  async read(uri: string): Promise<Buffer> {
    return this.#of(uri).read(uri);
  }

  async write(uri: string, data: ByteSource, options?: WriteOptions): Promise<boolean> {
    return this.#of(uri).write(uri, data, options);
  }

  async stat(uri: string): Promise<Entry | null> {
    return this.#of(uri).stat(uri);
  }

  async list(uri: string, options?: ListingOptions): Promise<Entry[]> {
    return this.#of(uri).list(uri, options);
  }

  async rename(from: string, to: string): Promise<boolean> {
    const source = this.#of(from);
    if (source !== this.#of(to)) {
      throw new TonyError('STORAGE_DENIED', `${from} cannot be moved to ${to}, which is on another file system.`);
    }
    return source.rename(from, to);
  }

  async remove(uri: string): Promise<boolean> {
    return this.#of(uri).remove(uri);
  }

  async makeFolder(uri: string, permission?: number): Promise<void> {
    return this.#of(uri).makeFolder(uri, permission);
  }

  close(): void {
    this.#file.close();
    this.#hdfs?.close();
    this.#s3.close();
  }

  #of(uri: string): Storage {
    const { scheme } = parseUri(uri);
    if (scheme === 'file') {
      return this.#file;
    }
    if (scheme === 's3') {
      return this.#s3;
    }
    if (this.#hdfs !== null) {
      return this.#hdfs;
    }
    throw new TonyError('HADOOP_CONF_NOT_FOUND', `${uri} is on HDFS, but no Hadoop configuration exists.`);
  }
}

async function noConnection(): Promise<never> {
  throw new TonyError('S3_CREDENTIALS_NOT_FOUND', 'This process has no access key for s3:// URIs.');
}
