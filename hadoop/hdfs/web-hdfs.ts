import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { type ByteSource, canBeSentAgain, openSource } from '../../platform/byte-source.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Secret } from '../../platform/secret.ts';
import type { HadoopConfiguration } from '../configuration/configuration.ts';
import { HttpClient, type HttpRequest, readWhole } from '../http/http-client.ts';
import { isMissingBelowFile, isTransient, parseRemoteException, type RemoteException, storageError } from '../http/remote-exception.ts';
import { ResumingReader } from '../http/resuming-reader.ts';
import { upload } from '../http/upload.ts';
import { AddressRound, type Outcome } from '../rpc/address-round.ts';
import { type FileStatus, fileStatusOf, jsonOf, notWebHdfs, recordOf, refusal, statusesOf, unreachable } from './web-hdfs-answers.ts';

export interface WebHdfsOptions {
  /** How long an operation may search for an active NameNode. */
  readonly patienceMs?: number;
  /** The same limit until a NameNode has responded once; default `patienceMs`. */
  readonly firstPatienceMs?: number;
  /** Maximum idle time of a connection. */
  readonly idleTimeoutMs?: number;
  /** The URL form of a delegation token, which replaces the user name. */
  readonly delegation?: Secret;
}

export type RenameOutcome = 'renamed' | 'source-missing' | 'target-exists';

const PATIENCE_MS = 15_000;
const IDLE_TIMEOUT_MS = 60_000;
/** Enough for about 300,000 files in one folder. */
const MAXIMUM_ANSWER_BYTES = 96 * 1024 * 1024;
const MAXIMUM_ERROR_BYTES = 256 * 1024;
const MAXIMUM_READ_BYTES = 1024 * 1024 * 1024;

/**
 * An HDFS file system, accessed through its REST interface
 * (https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html). The NameNode serves metadata and names the DataNode
 * that serves the data, either as 307 with `Location` or, with `noredirect=true`, as 200 `{"Location": ...}`. NameNodes are tried in turn.
 * Repeatable operations are repeated after a connection failure; if the first attempt may have been executed without a response, the client
 * checks the outcome. Paths are plain and absolute; they are not percent-decoded.
 */
export class WebHdfs {
  readonly #round: AddressRound;
  readonly #http = new HttpClient();
  readonly #identity: Readonly<Record<string, string>>;
  readonly #idleTimeoutMs: number;

  constructor(options: WebHdfsOptions & { readonly addresses: readonly string[]; readonly user: string | null }) {
    this.#round = new AddressRound(options.addresses, options.patienceMs ?? PATIENCE_MS, { firstPatienceMs: options.firstPatienceMs });
    this.#idleTimeoutMs = options.idleTimeoutMs ?? IDLE_TIMEOUT_MS;
    if (options.delegation !== undefined) {
      this.#identity = { delegation: Buffer.from(options.delegation.reveal()).toString('latin1') };
    } else {
      this.#identity = options.user === null ? {} : { 'user.name': options.user };
    }
  }

  /** The file system behind `hdfs://authority`. */
  static of(configuration: HadoopConfiguration, authority: string, user: string, options: WebHdfsOptions = {}): WebHdfs {
    return new WebHdfs({ ...options, addresses: configuration.nameNodes(authority), user: configuration.secure ? null : user });
  }

  /** null when the path does not exist. */
  async status(path: string): Promise<FileStatus | null> {
    const answer = await this.#call('GET', 'GETFILESTATUS', path);
    if ('remote' in answer) {
      if (isMissing(answer.remote)) {
        return null;
      }
      throw storageError(answer.remote, path);
    }
    return fileStatusOf(answer.json.FileStatus);
  }

  /** Lists a folder; empty for a file, null when the path does not exist. */
  async list(path: string): Promise<FileStatus[] | null> {
    const answer = await this.#call('GET', 'LISTSTATUS', path);
    if ('remote' in answer) {
      if (isMissing(answer.remote)) {
        return null;
      }
      throw storageError(answer.remote, path);
    }
    return statusesOf(answer.json, 'LISTSTATUS');
  }

  /** Lists the first `most` names of a folder of any size: the NameNode responds in parts (`dfs.ls.limit`, 1,000 by default). */
  async listFirst(path: string, most: number): Promise<FileStatus[] | null> {
    const found: FileStatus[] = [];
    for (;;) {
      const after = found.at(-1)?.name ?? '';
      const answer = await this.#call('GET', 'LISTSTATUS_BATCH', path, after === '' ? {} : { startafter: after });
      if ('remote' in answer) {
        if (isMissing(answer.remote)) {
          return found.length === 0 ? null : found;
        }
        throw storageError(answer.remote, path);
      }
      const { partialListing, remainingEntries } = recordOf(answer.json.DirectoryListing);
      const part = statusesOf(recordOf(partialListing), 'LISTSTATUS_BATCH');
      for (const status of part) {
        if (found.length < most) {
          found.push(status);
        }
      }
      if (part.length === 0 || remainingEntries === 0 || found.length >= most) {
        return found;
      }
      if (typeof remainingEntries !== 'number') {
        throw notWebHdfs('LISTSTATUS_BATCH has no remainingEntries');
      }
    }
  }

  /** Streams the bytes from `offset` on. Survives broken connections as long as the file has not changed. */
  async open(path: string, range: { readonly offset?: number; readonly length?: number } = {}): Promise<Readable> {
    const before = await this.status(path);
    if (before === null) {
      throw new TonyError('NOT_FOUND', `${path} does not exist.`);
    }
    if (before.type === 'folder') {
      throw new TonyError('NOT_FOUND', `${path} is a folder, not a file.`);
    }
    const offset = range.offset ?? 0;
    const length = Math.max(0, Math.min(range.length ?? before.length, before.length - offset));
    if (length === 0) {
      return Readable.from([]);
    }
    const changed = (): TonyError => new TonyError('STORAGE_REFUSED', `${path} was changed while it was read.`, { hint: 'Read it again.' });
    return new ResumingReader(
      { offset, length },
      async (at, isHeldByUs) => {
        const left = offset + length - at;
        // A read to the end of the file is requested without a length: the length of the response then shows whether the file has changed.
        const toEnd = offset + length === before.length;
        const response = await this.#openAt(path, toEnd ? { offset: at } : { offset: at, length: left }, isHeldByUs);
        const promised = response.headers['content-length'];
        if (promised !== undefined && Number(promised) !== left) {
          response.destroy();
          throw changed();
        }
        return response;
      },
      async () => {
        const now = await this.status(path);
        if (now === null || !isSameFile(before, now) || now.modificationTime !== before.modificationTime) {
          throw changed();
        }
      },
    );
  }

  /** Reads a whole file into memory, from a single response. */
  async read(path: string): Promise<Buffer> {
    const ended = await this.#round.run<Buffer>(async (address) => {
      const found = await this.#locate('GET', this.#url(address, path, 'OPEN', { noredirect: 'true' }), path);
      if ('again' in found) {
        return found;
      }
      return this.#interpret(path, [200], async () => {
        const response = await this.#http.send({ method: 'GET', url: found.result, idleTimeoutMs: this.#idleTimeoutMs });
        if (response.statusCode !== 200) {
          return { response, result: Buffer.alloc(0) };
        }
        if (Number(response.headers['content-length'] ?? 0) > MAXIMUM_READ_BYTES) {
          response.destroy();
          throw new TonyError('STORAGE_REFUSED', `${path} is larger than ${MAXIMUM_READ_BYTES} bytes, too large to be read at once.`);
        }
        return { response, result: await readWhole(response, MAXIMUM_READ_BYTES) };
      });
    });
    if ('reason' in ended) {
      throw unreachable(`Reading ${path}`, ended.reason);
    }
    return ended.result;
  }

  /** Writes a file and, by default, creates its parents. Sends the source again after a failure, where it can be read again. */
  async create(
    path: string,
    data: ByteSource,
    options: {
      readonly overwrite: boolean;
      readonly makeParents?: boolean | undefined;
      readonly permission: number;
      readonly length?: number | undefined;
      readonly onProgress?: ((bytes: number) => void) | undefined;
    },
  ): Promise<void> {
    const parameters = {
      overwrite: String(options.overwrite),
      ...(options.makeParents === false && { createparent: 'false' }),
      permission: octal(options.permission),
      noredirect: 'true',
    };
    const ended = await this.#round.run<true>(async (address) => {
      const found = await this.#locate('PUT', this.#url(address, path, 'CREATE', parameters), path);
      if ('again' in found) {
        return found;
      }
      const outcome = await this.#interpret(path, [201, 200], async () => {
        const response = await upload(this.#http, found.result, openSource(data), {
          idleTimeoutMs: this.#idleTimeoutMs,
          length: options.length,
          onProgress: options.onProgress,
        });
        if (response.statusCode === 201 || response.statusCode === 200) {
          response.resume();
        }
        return { response, result: true as const };
      });
      if ('again' in outcome && !canBeSentAgain(data)) {
        throw new TonyError('HDFS_UNREACHABLE', `Writing ${path} was interrupted, and its source cannot be read again: ${outcome.again}`);
      }
      return outcome;
    });
    if ('reason' in ended) {
      throw unreachable(`Writing ${path}`, ended.reason);
    }
  }

  async makeFolder(path: string, permission: number): Promise<void> {
    const answer = await this.#call('PUT', 'MKDIRS', path, { permission: octal(permission) });
    if ('remote' in answer) {
      throw storageError(answer.remote, path);
    }
    if (answer.json.boolean !== true) {
      throw new TonyError('STORAGE_REFUSED', `${path}: the NameNode did not create the folder.`);
    }
  }

  /** Atomic. Unlike `hdfs dfs -mv`, never moves into an existing folder. The parent of `to` must exist. */
  async rename(from: string, to: string, options: { readonly overwrite: boolean }): Promise<RenameOutcome> {
    const before = await this.status(from);
    if (before === null) {
      return 'source-missing';
    }
    const answer = await this.#call('PUT', 'RENAME', from, { destination: to, renameoptions: options.overwrite ? 'OVERWRITE' : 'NONE' });
    if (!('remote' in answer)) {
      return 'renamed';
    }
    const { exception } = answer.remote;
    if (exception === 'FileNotFoundException' || exception === 'FileAlreadyExistsException') {
      // After a lost response, an apparent rejection may be the success of the first attempt.
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
      // The NameNode rejects a rename of a file over a folder, or the reverse, with "must both be directories".
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

  /** Removes a file, or a folder with its content; returns false when the path does not exist. */
  async remove(path: string): Promise<boolean> {
    const answer = await this.#call('DELETE', 'DELETE', path, { recursive: 'true' });
    if (!('remote' in answer)) {
      return answer.json.boolean === true || answer.mayHaveHappened;
    }
    if (isMissing(answer.remote)) {
      return false;
    }
    throw storageError(answer.remote, path);
  }

  /**
   * Returns how much can still be written below a folder: bytes within its space quota, files and folders within its name quota, and free
   * bytes of the file system. null where no quota is set, or the NameNode does not report it.
   */
  async room(
    path: string,
  ): Promise<{ readonly ofQuota: number | null; readonly ofNames: number | null; readonly ofFileSystem: number | null }> {
    const [summary, status] = await Promise.all([
      this.#call('GET', 'GETCONTENTSUMMARY', path),
      // Requires Hadoop 3.4 or newer.
      this.#call('GET', 'GETSTATUS', '/'),
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
    this.#round.close();
    this.#http.close();
  }

  /** Runs an operation that the NameNode serves itself. */
  async #call(
    method: 'GET' | 'PUT' | 'DELETE',
    operation: string,
    path: string,
    parameters: Readonly<Record<string, string>> = {},
  ): Promise<
    | { readonly json: Record<string, unknown>; readonly mayHaveHappened: boolean }
    | { readonly remote: RemoteException; readonly mayHaveHappened: boolean }
  > {
    let mayHaveHappened = false;
    const ended = await this.#round.run<{ json: Record<string, unknown> } | { remote: RemoteException }>(async (address) => {
      let answer: { status: number; body: Buffer };
      try {
        const request: HttpRequest = { method, url: this.#url(address, path, operation, parameters), idleTimeoutMs: this.#idleTimeoutMs };
        answer = await this.#http.fetch(request, { maximumBytes: MAXIMUM_ANSWER_BYTES });
      } catch (error) {
        if (!isConnectionFailure(error)) {
          throw notWebHdfs(messageOf(error));
        }
        mayHaveHappened = true;
        return { again: messageOf(error) };
      }
      const text = answer.body.toString('utf8');
      if (answer.status === 200) {
        return { result: { json: jsonOf(text, operation) } };
      }
      const remote = parseRemoteException(text);
      if (remote === null) {
        return refusal(answer.status, path);
      }
      return isTransient(remote) ? { again: `${remote.message} (${remote.exception})` } : { result: { remote } };
    });
    if ('reason' in ended) {
      throw unreachable(`${operation} ${path}`, ended.reason);
    }
    return { ...ended.result, mayHaveHappened };
  }

  async #openAt(path: string, range: { offset: number; length?: number }, isHeldByUs: () => boolean): Promise<IncomingMessage> {
    const length: Record<string, string> = range.length === undefined ? {} : { length: String(range.length) };
    const parameters = { offset: String(range.offset), ...length, noredirect: 'true' };
    const ended = await this.#round.run<IncomingMessage>(async (address) => {
      const found = await this.#locate('GET', this.#url(address, path, 'OPEN', parameters), path);
      if ('again' in found) {
        return found;
      }
      return this.#interpret(path, [200], async () => {
        const response = await this.#http.send({ method: 'GET', url: found.result, idleTimeoutMs: this.#idleTimeoutMs, isHeldByUs });
        return { response, result: response };
      });
    });
    if ('reason' in ended) {
      throw unreachable(`Reading ${path}`, ended.reason);
    }
    return ended.result;
  }

  /** Requests the DataNode's URL from the NameNode. The URL may contain a token and must never be printed. */
  async #locate(method: 'GET' | 'PUT', url: URL, path: string): Promise<Outcome<URL>> {
    let location: string | undefined;
    const outcome = await this.#interpret(path, [200, 307], async () => {
      const response = await this.#http.send({ method, url, idleTimeoutMs: this.#idleTimeoutMs });
      if (response.statusCode === 200) {
        const answer = jsonOf((await readWhole(response, MAXIMUM_ERROR_BYTES)).toString('utf8'), 'noredirect=true');
        location = typeof answer.Location === 'string' ? answer.Location : undefined;
      } else if (response.statusCode === 307) {
        response.resume();
        location = response.headers.location;
      }
      return { response, result: true };
    });
    if ('again' in outcome) {
      return outcome;
    }
    if (location === undefined || !URL.canParse(location)) {
      throw notWebHdfs('there is no Location in a redirect');
    }
    return { result: new URL(location) };
  }

  /** Distinguishes success, a reason to try again, and a rejection (thrown). */
  async #interpret<T>(
    path: string,
    successes: readonly number[],
    attempt: () => Promise<{ response: IncomingMessage; result: T }>,
  ): Promise<Outcome<T>> {
    let refused: { status: number; text: string };
    try {
      const { response, result } = await attempt();
      const status = response.statusCode ?? 0;
      if (successes.includes(status)) {
        return { result };
      }
      refused = { status, text: (await readWhole(response, MAXIMUM_ERROR_BYTES)).toString('utf8') };
      // The server no longer reads the rest of a rejected upload.
      response.destroy();
    } catch (error) {
      if (error instanceof TonyError || !isConnectionFailure(error)) {
        throw error;
      }
      return { again: messageOf(error) };
    }
    const remote = parseRemoteException(refused.text);
    if (remote === null) {
      return refusal(refused.status, path);
    }
    if (isTransient(remote)) {
      return { again: `${remote.message} (${remote.exception})` };
    }
    throw storageError(remote, path);
  }

  #url(address: string, path: string, operation: string, parameters: Readonly<Record<string, string>>): URL {
    const url = new URL(`${address}/webhdfs/v1${path.split('/').map(encodeURIComponent).join('/')}`);
    url.search = new URLSearchParams({ op: operation, ...this.#identity, ...parameters }).toString();
    return url;
  }
}

/** Socket errors and errors of Node's HTTP parser have a code; programming errors do not. */
function isConnectionFailure(error: unknown): boolean {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === 'string' && !(error instanceof TypeError);
}

function isSameFile(a: FileStatus, b: FileStatus): boolean {
  if (a.fileId > 0) {
    return a.fileId === b.fileId;
  }
  return a.length === b.length && a.modificationTime === b.modificationTime;
}

function octal(permission: number): string {
  return permission.toString(8);
}

function isMissing(remote: RemoteException): boolean {
  return remote.exception === 'FileNotFoundException' || isMissingBelowFile(remote);
}
