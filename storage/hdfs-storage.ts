import type { Readable } from 'node:stream';
import type { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { FileSystems, type OpenedPlace } from '../hadoop/hdfs/file-systems.ts';
import type { FileStatus } from '../hadoop/hdfs/web-hdfs-answers.ts';
import type { ByteSource } from '../platform/byte-source.ts';
import { TonyError } from '../platform/errors.ts';
import type { Entry, ListingOptions, Storage, WriteOptions } from './storage.ts';
import { isTemporaryName, temporaryName } from './temporary-name.ts';
import { joinUri, nameOf, parseUri } from './uri.ts';

export interface HdfsStorageOptions {
  readonly hadoop: HadoopConfiguration;
  readonly user: string;
  /** Maximum time in ms to find an active NameNode. */
  readonly maxWaitMs?: number;
  /** Maximum time in ms to wait for the first response from any NameNode. Defaults to `maxWaitMs`. */
  readonly maxFirstWaitMs?: number;
  /** Time in ms after which a NameNode that accepts a request without responding is given up, if no NameNode has responded before. */
  readonly firstAnswerTimeoutMs?: number;
}

const FILE_PERMISSION = 0o644;
const FOLDER_PERMISSION = 0o755;

/** Storage for hdfs://, webhdfs://, swebhdfs:// and viewfs:// URIs, on all clusters that the Hadoop configuration names. */
export class HdfsStorage implements Storage {
  readonly #fileSystems: FileSystems;

  constructor({ hadoop, user, ...options }: HdfsStorageOptions) {
    this.#fileSystems = new FileSystems(hadoop, user, options);
  }

  async open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable> {
    const { fileSystem, path } = this.#target(uri);
    return fileSystem.open(path, range);
  }

  async read(uri: string): Promise<Buffer> {
    const { fileSystem, path } = this.#target(uri);
    return fileSystem.read(path);
  }

  async write(uri: string, data: ByteSource, options: WriteOptions = {}): Promise<boolean> {
    const { fileSystem, path } = this.#target(uri);
    refuseColons(uri, path);
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
      // The rename is atomic, so that only one of several concurrent writers with `ifAbsent` succeeds.
      const outcome = await fileSystem.rename(temporary, path, { overwrite: !options.ifAbsent });
      isThere = outcome !== 'renamed';
      if (outcome === 'source-missing') {
        throw new TonyError('STORAGE_DENIED', `${uri}: the temporary file was removed before it could be renamed.`);
      }
      return outcome === 'renamed';
    } finally {
      if (isThere) {
        await fileSystem.remove(temporary).catch(() => false);
      }
    }
  }

  async stat(uri: string): Promise<Entry | null> {
    const { target, isFixed } = this.#locate(uri);
    const status = target === null ? null : await target.fileSystem.status(target.path);
    if (status !== null) {
      return entryOf(uri, nameOf(uri), status);
    }
    return isFixed ? mountEntry(uri) : null;
  }

  async list(uri: string, { raw = false, most }: ListingOptions = {}): Promise<Entry[]> {
    const { target, names } = this.#locate(uri);
    const found = target === null ? null : await listing(target, most);
    // If the parent folder's target contains an entry with the same name as a mount point, the mount point hides that entry.
    const visible = (found ?? []).filter(({ name }) => (raw || !isTemporaryName(name)) && !names.includes(name));
    const mounted = await Promise.all(names.map((name) => this.#mounted(joinUri(uri, name))));
    const entries = [...visible.map((status) => entryOf(joinUri(uri, status.name), status.name, status)), ...mounted].sort(byName);
    return most === undefined ? entries : entries.slice(0, most);
  }

  async rename(from: string, to: string): Promise<boolean> {
    const [before, after] = [this.#locate(from), this.#locate(to)];
    if (before.mount !== after.mount) {
      throw new TonyError('STORAGE_DENIED', `${from} cannot be moved to ${to}, which is on another file system or mount point.`, {
        hint: 'Choose a target below the same mount point, or copy the files.',
      });
    }
    const [source, target] = [this.#target(from), this.#target(to)];
    refuseFixed(from, before);
    refuseColons(to, target.path);
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
    if (parseUri(uri).path === '/') {
      throw new TonyError('STORAGE_DENIED', `${uri}: the root folder cannot be removed.`);
    }
    const place = this.#locate(uri);
    refuseFixed(uri, place);
    return place.target === null ? false : place.target.fileSystem.remove(place.target.path);
  }

  async makeFolder(uri: string, permission = FOLDER_PERMISSION): Promise<void> {
    const place = this.#locate(uri);
    if (place.target === null && place.isFixed) {
      return;
    }
    const { fileSystem, path } = this.#target(uri);
    refuseColons(uri, path);
    await fileSystem.makeFolder(path, permission);
  }

  close(): void {
    this.#fileSystems.close();
  }

  #locate(uri: string): OpenedPlace {
    const parsed = parseUri(uri);
    if (parsed.scheme === 'file' || parsed.scheme === 's3') {
      throw new TonyError('STORAGE_DENIED', `${uri} is not an HDFS URI.`);
    }
    return this.#fileSystems.locate(parsed);
  }

  /**
   * Returns the file system and the path to which a URI resolves.
   * @throws TonyError NOT_FOUND, or STORAGE_DENIED for a folder that exists only in the mount table
   */
  #target(uri: string): NonNullable<OpenedPlace['target']> {
    const { target, isFixed } = this.#locate(uri);
    if (target !== null) {
      return target;
    }
    throw isFixed
      ? new TonyError('STORAGE_DENIED', `${uri} is a folder that exists only in the mount table, so it cannot contain files.`, {
          hint: 'Choose a path below a mount point.',
        })
      : new TonyError('NOT_FOUND', `${uri} is not below any mount point, and the mount table has no linkFallback.`);
  }

  /**
   * Returns the entry for a mount point, or for a folder above one. If the mount point's target is missing or unreachable, returns an entry
   * without the target's properties.
   */
  async #mounted(uri: string): Promise<Entry> {
    return (await this.stat(uri).catch(() => null)) ?? mountEntry(uri);
  }
}

function listing({ fileSystem, path }: NonNullable<OpenedPlace['target']>, most: number | undefined): Promise<FileStatus[] | null> {
  return most === undefined ? fileSystem.list(path) : fileSystem.listFirst(path, most);
}

/** The NameNode's own message would name the temporary file. */
function refuseColons(uri: string, path: string): void {
  if (path.includes(':')) {
    throw new TonyError('STORAGE_DENIED', `${uri}: HDFS does not allow colons in the names of files and folders.`, {
      hint: 'Choose a name without colons.',
    });
  }
}

function refuseFixed(uri: string, { isFixed }: OpenedPlace): void {
  if (isFixed) {
    throw new TonyError('STORAGE_DENIED', `${uri} is a mount point, or a folder above one, and cannot be moved or removed.`);
  }
}

/** Returns the entry for a folder that exists only in the mount table. As in Hadoop, the folder is read-only for all users. */
function mountEntry(uri: string): Entry {
  return { uri, name: nameOf(uri), type: 'folder', size: 0, modifiedAt: 0, permission: 0o555, owner: '' };
}

function entryOf(uri: string, name: string, status: FileStatus): Entry {
  const { type, length, modificationTime, permission, owner, encrypted } = status;
  return { uri, name, type, size: length, modifiedAt: modificationTime, permission, owner, ...(encrypted && { encrypted }) };
}

function byName(a: Entry, b: Entry): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}
