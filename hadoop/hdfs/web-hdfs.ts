import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { type ByteSource, canBeSentAgain, openSource } from '../../platform/byte-source.ts';
import { TonyError } from '../../platform/errors.ts';
import { trustOf } from '../configuration/authorities.ts';
import type { HadoopConfiguration } from '../configuration/configuration.ts';
import { gatewayOf } from '../configuration/file-systems/gateway.ts';
import { type FileSystemName, nameNodesOf, unknownNameservice } from '../configuration/file-systems/name-nodes.ts';
import { gatewayLogin } from '../configuration/login/gateway-login.ts';
import { loginOf } from '../configuration/login/login-of.ts';
import { readWhole } from '../http/http-client.ts';
import { storageError } from '../http/remote-exception.ts';
import { ResumingReader } from '../http/resuming-reader.ts';
import { upload } from '../http/upload.ts';
import { completeRename, keptPath, type SimpleFileSystem, withKept } from './rename-in-steps.ts';
import {
  type FileStatus,
  fileStatusOf,
  isMissing,
  isSameFile,
  notWebHdfs,
  octal,
  parentOf,
  recordOf,
  statusesOf,
  UNSUPPORTED,
  unlessMissing,
  unlessUnsupported,
} from './web-hdfs-answers.ts';
import { type Transfer, type WebHdfsOptions, type WebHdfsServers, WebHdfsTransport } from './web-hdfs-transport.ts';

/** A byte range, which defaults to the whole file. */
interface FileRange {
  readonly offset?: number;
  readonly length?: number;
}

/** The requests that `openFile` sends. */
interface FileRequests {
  /** Returns the file's status and the path at which its content is currently stored, or null if the file does not exist. */
  readonly find: () => Promise<{ readonly status: FileStatus; readonly path: string } | null>;
  readonly status: (path: string) => Promise<FileStatus | null>;
  /** Requests `length` bytes, or the rest of the file if there is no length. */
  readonly open: (
    path: string,
    range: { readonly offset: number; readonly length?: number },
    isHeldByUs: () => boolean,
  ) => Promise<IncomingMessage>;
}

interface Version {
  readonly status: FileStatus;
  /** The path at which the version's content is currently stored. */
  readonly path: string;
  readonly offset: number;
  readonly length: number;
}

/** Maximum number of attempts to open a file that another process is replacing. */
const MOST_REPLACEMENTS = 5;

/**
 * Streams one version of a file. If the file is replaced before the first byte arrives, streams the new version instead. If the file is
 * replaced later and the connection then breaks, the stream fails.
 */
async function openFile(path: string, range: FileRange, requests: FileRequests): Promise<Readable> {
  const changed = (): TonyError => new TonyError('STORAGE_DENIED', `${path} was changed while it was read.`, { hint: 'Read it again.' });
  let version = await versionOf(path, range, requests);
  if (version.length === 0) {
    return Readable.from([]);
  }
  const { offset } = version;
  return new ResumingReader(
    offset,
    async (at, isHeldByUs) => {
      for (let attempt = 1; ; attempt++) {
        const opened = await openVersion(version, at, isHeldByUs, requests);
        if (opened !== null) {
          return opened;
        }
        if (at > offset || attempt === MOST_REPLACEMENTS) {
          throw changed();
        }
        version = await versionOf(path, range, requests);
        if (version.length === 0) {
          throw changed();
        }
      }
    },
    async () => {
      const now = await requests.status(version.path);
      if (now === null || !isSameFile(version.status, now) || now.modificationTime !== version.status.modificationTime) {
        throw changed();
      }
    },
  );
}

async function versionOf(path: string, range: FileRange, { find }: FileRequests): Promise<Version> {
  const found = await find();
  if (found === null) {
    throw new TonyError('NOT_FOUND', `${path} does not exist.`);
  }
  if (found.status.type === 'folder') {
    throw new TonyError('NOT_FOUND', `${path} is a folder, not a file.`);
  }
  const offset = range.offset ?? 0;
  const length = Math.max(0, Math.min(range.length ?? found.status.length, found.status.length - offset));
  return { ...found, offset, length };
}

/** Requests the rest of a file version. Returns null if the response length shows that the file was replaced. */
async function openVersion(
  { path, status, offset, length }: Version,
  at: number,
  isHeldByUs: () => boolean,
  requests: FileRequests,
): Promise<{ readonly response: IncomingMessage; readonly remaining: number } | null> {
  const remaining = offset + length - at;
  // Request everything up to the end of the file where possible. The response length then shows whether the file has changed.
  const toEnd = offset + length === status.length;
  const response = await requests.open(path, toEnd ? { offset: at } : { offset: at, length: remaining }, isHeldByUs);
  const promised = response.headers['content-length'];
  if (promised === undefined || Number(promised) === remaining) {
    return { response, remaining };
  }
  response.destroy();
  return null;
}

export type RenameOutcome = 'renamed' | 'source-missing' | 'target-exists';

const MAXIMUM_READ_BYTES = 1024 * 1024 * 1024;

export interface CreateOptions {
  readonly overwrite: boolean;
  readonly makeParents?: boolean | undefined;
  readonly permission: number;
  /** Content length in bytes, if known. */
  readonly length?: number | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

/**
 * A client for one HDFS file system, based on WebHDFS (https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html).
 * The client retries an operation after a connection failure. If a response is lost, the client checks whether the server executed the
 * operation. All paths are absolute and not percent-encoded.
 */
export class WebHdfs {
  readonly #transport: WebHdfsTransport;
  /** False for HttpFS, which does not support `renameoptions` and `createparent`. */
  #hasAllOptions: boolean;

  constructor(options: WebHdfsOptions & WebHdfsServers) {
    this.#transport = new WebHdfsTransport(options);
    // For a gateway, the first rename shows whether the gateway supports all options.
    this.#hasAllOptions = !options.isGateway;
  }

  /** Creates a client for a file system. The client uses the file system's gateway if one is configured. */
  static of(configuration: HadoopConfiguration, fileSystem: FileSystemName, user: string, options: WebHdfsOptions = {}): WebHdfs {
    const gateway = gatewayOf(configuration, fileSystem);
    const login = loginOf(configuration, user);
    return new WebHdfs({
      ...options,
      addresses: gateway === null ? nameNodesOf(configuration, fileSystem) : [gateway],
      login: gateway === null ? login : gatewayLogin(configuration, gateway, login),
      trust: trustOf(configuration),
      isGateway: gateway !== null,
      doubt: gateway === null ? unknownNameservice(configuration, fileSystem) : null,
    });
  }

  /** Returns the status of a file or folder, or null if the path does not exist. */
  async status(path: string): Promise<FileStatus | null> {
    return (await this.#find(path))?.status ?? null;
  }

  /** Lists a folder. Returns an empty list for a file, or null if the path does not exist. */
  async list(path: string): Promise<FileStatus[] | null> {
    const answer = await this.#read('LISTSTATUS', path);
    return answer === null ? null : withKept(statusesOf(answer.json, 'LISTSTATUS', answer.server));
  }

  /**
   * Lists the first `most` entries of a folder of any size. Each response contains at most `dfs.ls.limit` entries (1,000 by default).
   */
  async listFirst(path: string, most: number): Promise<FileStatus[] | null> {
    const found: FileStatus[] = [];
    for (;;) {
      const after = found.at(-1)?.name ?? '';
      const answer = await this.#read('LISTSTATUS_BATCH', path, after === '' ? {} : { startafter: after }).catch(unlessUnsupported);
      if (answer === UNSUPPORTED) {
        return (await this.list(path))?.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, most) ?? null;
      }
      if (answer === null) {
        return found.length === 0 ? null : withKept(found);
      }
      const { partialListing, remainingEntries } = recordOf(answer.json.DirectoryListing);
      const part = statusesOf(recordOf(partialListing), 'LISTSTATUS_BATCH', answer.server);
      found.push(...part.slice(0, most - found.length));
      if (part.length === 0 || remainingEntries === 0 || found.length >= most) {
        return withKept(found);
      }
      if (typeof remainingEntries !== 'number') {
        throw notWebHdfs('the response to LISTSTATUS_BATCH has no remainingEntries', answer.server);
      }
    }
  }

  /**
   * Streams a file from `offset` (default 0). If the connection breaks, the stream continues on a new connection, provided that the file is
   * unchanged. If the file is replaced before the first byte arrives, streams the new version instead.
   */
  async open(path: string, range: FileRange = {}): Promise<Readable> {
    return openFile(path, range, {
      find: () => this.#find(path),
      status: (at) => this.#statusAt(at),
      open: (at, bytes, isHeldByUs) => this.#openAt(at, bytes, isHeldByUs),
    });
  }

  /** Reads a whole file into memory with a single request. */
  async read(path: string): Promise<Buffer> {
    if (this.#hasAllOptions) {
      return this.#readAt(path);
    }
    return this.#readAt(path)
      .catch(unlessMissing(() => this.#readAt(keptPath(path))))
      .catch(unlessMissing(() => this.#readAt(path)));
  }

  async #readAt(path: string): Promise<Buffer> {
    return this.#transport.transfer(`Reading ${path}`, {
      method: 'GET',
      operation: 'OPEN',
      path,
      parameters: {},
      successes: [200],
      send: async (http, url, idleTimeoutMs, headers) => {
        const response = await http.send({ method: 'GET', url, headers, idleTimeoutMs });
        if (response.statusCode !== 200) {
          return { response, result: Buffer.alloc(0) };
        }
        if (Number(response.headers['content-length'] ?? 0) > MAXIMUM_READ_BYTES) {
          response.destroy();
          throw new TonyError(
            'STORAGE_DENIED',
            `${path} is larger than ${MAXIMUM_READ_BYTES} bytes, the limit for files that are read into memory.`,
          );
        }
        return { response, result: await readWhole(response, MAXIMUM_READ_BYTES) };
      },
    });
  }

  /**
   * Writes a file. Creates missing parent folders by default. After a connection failure, sends the data again if `source` can be read a
   * second time.
   */
  async create(path: string, data: ByteSource, options: CreateOptions): Promise<void> {
    if (options.makeParents === false && !this.#hasAllOptions && (await this.status(parentOf(path))) === null) {
      throw new TonyError('NOT_FOUND', `${parentOf(path)} does not exist.`);
    }
    await this.#put(path, data, options, async (reason, untrusted) => {
      if (canBeSentAgain(data)) {
        return;
      }
      if (untrusted !== undefined) {
        throw untrusted;
      }
      const interrupted = new TonyError(
        'HDFS_UNREACHABLE',
        `Writing ${path} was interrupted, and its source cannot be read again: ${reason}`,
      );
      // A DataNode that rejects an upload closes the connection, so its response may be lost. To obtain the error, write one byte to
      // another file in the same folder. The interrupted upload's blocks still count toward a quota, so this write fails for the same
      // reason.
      const beside = `${path}.probe`;
      try {
        await this.#put(beside, Buffer.alloc(1), { ...options, overwrite: true, length: 1, onProgress: undefined }, () => {
          throw interrupted;
        });
      } finally {
        // If the removal also fails, report only the write error.
        await this.remove(beside).catch(() => false);
      }
      throw interrupted;
    });
  }

  async #put(
    path: string,
    data: ByteSource,
    { overwrite, makeParents, permission, length, onProgress }: CreateOptions,
    beforeRepeat: NonNullable<Transfer<void>['beforeRepeat']>,
  ): Promise<void> {
    await this.#transport.transfer(`Writing ${path}`, {
      method: 'PUT',
      operation: 'CREATE',
      path,
      parameters: {
        overwrite: String(overwrite),
        ...(makeParents === false && { createparent: 'false' }),
        permission: octal(permission),
      },
      successes: [201, 200],
      send: async (http, url, idleTimeoutMs, headers) => {
        const response = await upload(http, url, openSource(data), { idleTimeoutMs, headers, length, onProgress });
        if (response.statusCode === 201 || response.statusCode === 200) {
          response.resume();
        }
        return { response, result: undefined };
      },
      beforeRepeat,
    });
  }

  async makeFolder(path: string, permission: number): Promise<void> {
    const answer = await this.#transport.call('PUT', 'MKDIRS', path, { permission: octal(permission) });
    if ('remote' in answer) {
      throw storageError(answer.remote, path);
    }
    if (answer.json.boolean !== true) {
      throw new TonyError('STORAGE_DENIED', `${path}: the NameNode did not create the folder.`);
    }
  }

  /**
   * Renames a file or folder atomically. Unlike `hdfs dfs -mv`, this method never moves the source into an existing folder. The parent
   * folder of `to` must exist.
   */
  async rename(from: string, to: string, options: { readonly overwrite: boolean }): Promise<RenameOutcome> {
    const before = await this.status(from);
    if (before === null) {
      return 'source-missing';
    }
    const answer = await this.#transport.call('PUT', 'RENAME', from, {
      destination: to,
      renameoptions: options.overwrite ? 'OVERWRITE' : 'NONE',
    });
    if (!('remote' in answer)) {
      // A server that supports `renameoptions` responds without a body.
      this.#hasAllOptions = typeof answer.json.boolean !== 'boolean';
      return this.#hasAllOptions
        ? 'renamed'
        : completeRename(this.#simple(), { from, to, before, overwrite: options.overwrite }, answer.json.boolean === true);
    }
    const { exception } = answer.remote;
    if (exception === 'FileNotFoundException' || exception === 'FileAlreadyExistsException') {
      // The error may mean that an earlier attempt succeeded and its response was lost.
      const after = answer.mayHaveHappened ? await this.status(to) : null;
      if (after !== null && isSameFile(before, after) && from !== to) {
        return 'renamed';
      }
      if (exception === 'FileAlreadyExistsException') {
        return 'target-exists';
      }
      if ((await this.status(from)) === null) {
        return 'source-missing';
      }
    }
    if (exception === 'IOException') {
      // The NameNode's error is "must both be directories" if only one of the two paths is a folder.
      const target = await this.status(to);
      if (target !== null && !options.overwrite) {
        return 'target-exists';
      }
      if (target?.type === 'folder') {
        throw new TonyError('ALREADY_EXISTS', `${to} is a folder.`);
      }
    }
    throw storageError(answer.remote, `${from} to ${to}`);
  }

  /** Removes a file, or a folder with its content. Returns false if the path does not exist. */
  async remove(path: string): Promise<boolean> {
    if (!this.#hasAllOptions) {
      await this.#removeAt(keptPath(path));
    }
    return this.#removeAt(path);
  }

  async #removeAt(path: string): Promise<boolean> {
    const answer = await this.#transport.call('DELETE', 'DELETE', path, { recursive: 'true' });
    if (!('remote' in answer)) {
      return answer.json.boolean === true || answer.mayHaveHappened;
    }
    if (isMissing(answer.remote)) {
      return false;
    }
    throw storageError(answer.remote, path);
  }

  /**
   * Returns how much room is left for a folder: the bytes left in its space quota, the entries left in its name quota, and the free bytes
   * in the file system. A value is null if there is no quota or the NameNode does not report it.
   */
  async room(
    path: string,
  ): Promise<{ readonly ofQuota: number | null; readonly ofNames: number | null; readonly ofFileSystem: number | null }> {
    const [summary, status] = await Promise.all([
      this.#transport.call('GET', 'GETCONTENTSUMMARY', path),
      // GETSTATUS requires Hadoop 3.4 or newer.
      this.#transport.call('GET', 'GETSTATUS', '/'),
    ]);
    const quota = 'json' in summary ? (summary.json.ContentSummary as Record<string, unknown> | undefined) : undefined;
    const whole = 'json' in status ? (status.json.FsStatus as Record<string, unknown> | undefined) : undefined;
    const left = (limit: unknown, used: number): number | null => (Number(limit ?? -1) < 0 ? null : Math.max(0, Number(limit) - used));
    return {
      ofQuota: left(quota?.spaceQuota, Number(quota?.spaceConsumed ?? 0)),
      ofNames: left(quota?.quota, Number(quota?.fileCount ?? 0) + Number(quota?.directoryCount ?? 0)),
      ofFileSystem: typeof whole?.remaining === 'number' ? whole.remaining : null,
    };
  }

  close(): void {
    this.#transport.close();
  }

  /**
   * Returns a path's status and the path at which its content is currently stored. The two paths differ only while a file on HttpFS is
   * being replaced.
   */
  async #find(path: string): Promise<{ readonly status: FileStatus; readonly path: string } | null> {
    const places = this.#hasAllOptions || path === '/' ? [path] : [path, keptPath(path), path];
    for (const place of places) {
      const status = await this.#statusAt(place);
      if (status !== null) {
        return { status, path: place };
      }
    }
    return null;
  }

  async #statusAt(path: string): Promise<FileStatus | null> {
    const answer = await this.#read('GETFILESTATUS', path);
    return answer === null ? null : fileStatusOf(answer.json.FileStatus, answer.server);
  }

  /** Returns the operations that `completeRename` needs. */
  #simple(): SimpleFileSystem {
    return {
      status: (path) => this.#statusAt(path),
      rename: async (from, to) => {
        const answer = await this.#transport.call('PUT', 'RENAME', from, { destination: to });
        if ('remote' in answer && !isMissing(answer.remote)) {
          throw storageError(answer.remote, `${from} to ${to}`);
        }
        return 'json' in answer && answer.json.boolean === true;
      },
      remove: (path) => this.#removeAt(path),
      isSame: isSameFile,
    };
  }

  /** Sends a read request to the NameNode. Returns null if the path does not exist. */
  async #read(
    operation: string,
    path: string,
    parameters: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly json: Record<string, unknown>; readonly server: string } | null> {
    const answer = await this.#transport.call('GET', operation, path, parameters);
    if ('json' in answer) {
      return answer;
    }
    if (isMissing(answer.remote)) {
      return null;
    }
    throw storageError(answer.remote, path);
  }

  #openAt(path: string, range: { offset: number; length?: number }, isHeldByUs: () => boolean): Promise<IncomingMessage> {
    const length: Record<string, string> = range.length === undefined ? {} : { length: String(range.length) };
    return this.#transport.transfer(`Reading ${path}`, {
      method: 'GET',
      operation: 'OPEN',
      path,
      parameters: { offset: String(range.offset), ...length },
      successes: [200],
      send: async (http, url, idleTimeoutMs, headers) => {
        const response = await http.send({ method: 'GET', url, headers, idleTimeoutMs, isHeldByUs });
        return { response, result: response };
      },
    });
  }
}
