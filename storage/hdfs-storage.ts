import type { Readable } from 'node:stream';
import type { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { WebHdfs } from '../hadoop/hdfs/web-hdfs.ts';
import type { FileStatus } from '../hadoop/hdfs/web-hdfs-answers.ts';
import type { ByteSource } from '../platform/byte-source.ts';
import { TonyError } from '../platform/errors.ts';
import type { Entry, ListingOptions, Storage, WriteOptions } from './storage.ts';
import { isTemporaryName, temporaryName } from './temporary-name.ts';
import { joinUri, nameOf, parseUri } from './uri.ts';

export interface HdfsStorageOptions {
  readonly hadoop: HadoopConfiguration;
  readonly user: string;
  /** Timeout in ms for finding an active NameNode. */
  readonly patienceMs?: number;
  /** Timeout in ms for finding an active NameNode before any NameNode has responded; defaults to `patienceMs`. */
  readonly firstPatienceMs?: number;
}

const FILE_PERMISSION = 0o644;
const FOLDER_PERMISSION = 0o755;

/** Storage for hdfs:// URIs on all clusters in the Hadoop configuration. */
export class HdfsStorage implements Storage {
  readonly #options: HdfsStorageOptions;
  readonly #fileSystems = new Map<string, WebHdfs>();

  constructor(options: HdfsStorageOptions) {
    this.#options = options;
  }

  async open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable> {
    const { fileSystem, path } = this.#locate(uri);
    return fileSystem.open(path, range);
  }

  async read(uri: string): Promise<Buffer> {
    const { fileSystem, path } = this.#locate(uri);
    return fileSystem.read(path);
  }

  async write(uri: string, data: ByteSource, options: WriteOptions = {}): Promise<boolean> {
    const { fileSystem, path } = this.#locate(uri);
    if (options.ifAbsent && (await fileSystem.status(path)) !== null) {
      return false;
    }
    const temporary = `${path.slice(0, path.lastIndexOf('/'))}/${temporaryName(path.slice(path.lastIndexOf('/') + 1))}`;
    let isThere = true;
    try {
      await fileSystem.create(temporary, data, {
        overwrite: true,
        makeParents: options.makeParents,
        permission: options.permission ?? FILE_PERMISSION,
        length: options.length,
        onProgress: options.onProgress,
      });
      // The rename is atomic. With `ifAbsent`, only one of several concurrent writers succeeds.
      const outcome = await fileSystem.rename(temporary, path, { overwrite: !options.ifAbsent });
      isThere = outcome !== 'renamed';
      if (outcome === 'source-missing') {
        throw new TonyError('STORAGE_REFUSED', `${uri}: the written file was removed before it was renamed.`);
      }
      return outcome === 'renamed';
    } finally {
      if (isThere) {
        await fileSystem.remove(temporary).catch(() => false);
      }
    }
  }

  async stat(uri: string): Promise<Entry | null> {
    const { fileSystem, path } = this.#locate(uri);
    const status = await fileSystem.status(path);
    return status === null ? null : entryOf(uri, nameOf(uri), status);
  }

  async list(uri: string, { raw = false, most }: ListingOptions = {}): Promise<Entry[]> {
    const { fileSystem, path } = this.#locate(uri);
    const found = most === undefined ? await fileSystem.list(path) : await fileSystem.listFirst(path, most);
    return (found ?? [])
      .filter((status) => raw || !isTemporaryName(status.name))
      .map((status) => entryOf(joinUri(uri, status.name), status.name, status))
      .sort(byName);
  }

  async rename(from: string, to: string): Promise<boolean> {
    const source = this.#locate(from);
    const target = this.#locate(to);
    if (source.fileSystem !== target.fileSystem) {
      throw new TonyError('STORAGE_REFUSED', `${from} cannot be moved to another file system.`);
    }
    const parent = target.path.slice(0, target.path.lastIndexOf('/')) || '/';
    if ((await target.fileSystem.status(parent)) === null) {
      if ((await source.fileSystem.status(source.path)) === null) {
        return false;
      }
      await target.fileSystem.makeFolder(parent, FOLDER_PERMISSION);
    }
    return (await source.fileSystem.rename(source.path, target.path, { overwrite: false })) === 'renamed';
  }

  async remove(uri: string): Promise<boolean> {
    const { fileSystem, path } = this.#locate(uri);
    if (path === '/') {
      throw new TonyError('STORAGE_REFUSED', `${uri}: the root folder cannot be removed.`);
    }
    return fileSystem.remove(path);
  }

  async makeFolder(uri: string, permission = FOLDER_PERMISSION): Promise<void> {
    const { fileSystem, path } = this.#locate(uri);
    await fileSystem.makeFolder(path, permission);
  }

  close(): void {
    for (const fileSystem of this.#fileSystems.values()) {
      fileSystem.close();
    }
    this.#fileSystems.clear();
  }

  #locate(uri: string): { fileSystem: WebHdfs; path: string } {
    const parsed = parseUri(uri);
    if (parsed.scheme !== 'hdfs') {
      throw new TonyError('STORAGE_REFUSED', `${uri} is not an hdfs:// URI.`);
    }
    const authority = parsed.authority || this.#defaultAuthority(uri);
    let fileSystem = this.#fileSystems.get(authority);
    if (fileSystem === undefined) {
      const { hadoop, user, ...options } = this.#options;
      fileSystem = WebHdfs.of(hadoop, authority, user, options);
      this.#fileSystems.set(authority, fileSystem);
    }
    return { fileSystem, path: parsed.path };
  }

  #defaultAuthority(uri: string): string {
    const { defaultFs } = this.#options.hadoop;
    const parsed = /^hdfs:\/\/([^/]+)/.exec(defaultFs);
    if (parsed?.[1] !== undefined) {
      return parsed[1];
    }
    throw new TonyError('HADOOP_CONF_INVALID', `${uri} names no NameNode, and fs.defaultFS is ${defaultFs || 'not set'}.`);
  }
}

function entryOf(uri: string, name: string, status: FileStatus): Entry {
  const { type, length, modificationTime, permission, owner } = status;
  return { uri, name, type, size: length, modifiedAt: modificationTime, permission, owner };
}

function byName(a: Entry, b: Entry): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}
