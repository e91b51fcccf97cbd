import { messageOf, TonyError } from '../../platform/errors.ts';
import { parseJson } from '../../platform/json-value.ts';
import { withoutEnd } from '../../platform/text/without-end.ts';
import { WeightedCache } from '../../platform/weighted-cache.ts';
import { trustOf } from '../configuration/authorities.ts';
import type { HadoopConfiguration } from '../configuration/configuration.ts';
import { HDFS_URI, locationOf } from '../configuration/file-systems/hdfs-place.ts';
import { loginOf } from '../configuration/login/login-of.ts';
import { FileSystems } from '../hdfs/file-systems.ts';
import { type HttpAnswer, HttpClient, readWhole } from '../http/http-client.ts';
import { parseRemoteException } from '../http/remote-exception.ts';
import { applicationOf, parseContainerId } from '../rpc/application-id.ts';
import { type Login, sendAs } from '../security/login.ts';
import { type AggregatedFile, indexAggregatedLog, partsOf, readAggregatedFile } from './aggregated-log.ts';
import { ByteCursor } from './byte-cursor.ts';
import type { RangeSource } from './tfile.ts';

/*
 * A NodeManager responds to GET /ws/v1/node/containers/<id>/logs/<file>?size=<n> until it removes the container. The response contains the
 * first n bytes of the log file, or its last -n bytes if n is negative, between a header and a footer:
 *
 *   Container: container_... on host:port
 *   LogAggregationType: LOCAL
 *   =====...
 *   LogType:stdout
 *   LogLastModifiedTime:Sat Nov 21 05:12:04 +0000 2026
 *   LogLength:85                  length of the whole file
 *   LogContents:
 *   <bytes>End of LogType:stdout.This log file belongs to a running container (...) and so may not be complete.
 *   *****...
 *
 * For an empty file, Hadoop 2.10 omits the header.
 */

const CONTENTS = Buffer.from('\nLogContents:\n');
const FOOTER = Buffer.from('End of LogType:');
/** Maximum length in bytes, both of the header and of the footer. A header usually has about 300 bytes, and a footer about 250. */
const MAXIMUM_HEAD_BYTES = 16 * 1024;

/** Returns the whole file's length in bytes at the time of the request. Throws a RangeError if the header does not contain a length. */
function logLengthOf(head: Buffer): number {
  const length = /^LogLength:(\d{1,15})$/m.exec(head.toString('latin1'))?.[1];
  if (length === undefined) {
    throw new RangeError('the response has no LogLength');
  }
  return Number(length);
}

/** Returns true if the footer states that the container is still running. */
function saysRunning(foot: Buffer): boolean {
  return foot.includes('belongs to a running container');
}

export interface LogOwner {
  readonly containerId: string;
  /**
   * The NodeManager's web address (`host:port`), or null if it is unknown. The NodeManager serves the logs until the application ends. The
   * address must come from YARN: the login rejects an address that another user wrote. An invalid address is treated like an unknown one.
   */
  readonly nodeHttp: string | null;
  /** The NodeManager's address (`host:port`), if known. Only a hint about which aggregated log file contains the container's logs. */
  readonly node?: string | null;
  readonly owner: string;
}

export interface LogFile {
  readonly name: string;
  readonly size: number;
}

export interface ContainerLogPiece {
  readonly bytes: Buffer;
  /** Offset of `bytes` in the file. */
  readonly offset: number;
  /** File size in bytes at the time of the request. */
  readonly size: number;
  /** True if the file is complete and `bytes` extends to its end. */
  readonly complete: boolean;
}

/** A range of a file: either everything from `offset` to the end, or the last `tail` bytes. */
export type LogRange = ({ readonly offset: number } | { readonly tail: number }) & {
  /** Maximum number of bytes to return, counted from the start of the range. Defaults to 4 MiB. */
  readonly limit?: number;
};

const LIMIT_BYTES = 4 * 1024 * 1024;
const IDLE_TIMEOUT_MS = 10_000;
const MAXIMUM_ANSWER_BYTES = 1024 * 1024;
/** Number of additional bytes to request, because the file may grow between two requests. */
const SLACK_BYTES = 64 * 1024;
const MAXIMUM_TRIES = 6;
/** Maximum number of cached log files and spans, each of which takes about 100 bytes. */
const REMEMBERED_PARTS = 400_000;

/**
 * Reads container logs. While an application is running, its logs are on the NodeManagers. Afterwards, they are in aggregated logs on HDFS.
 */
export class ContainerLogs {
  readonly #configuration: HadoopConfiguration;
  readonly #user: string;
  readonly #login: Login;
  readonly #http: HttpClient;
  readonly #fileSystems: FileSystems;
  /** Indexes of aggregated logs, keyed by path. They never become outdated, because aggregated logs do not change. */
  readonly #indexed = new WeightedCache<string, readonly AggregatedFile[]>(REMEMBERED_PARTS);
  readonly #indexing = new Map<string, Promise<readonly AggregatedFile[]>>();

  constructor(options: { readonly configuration: HadoopConfiguration; readonly user: string }) {
    this.#configuration = options.configuration;
    this.#user = options.user;
    this.#login = loginOf(options.configuration, options.user);
    this.#http = new HttpClient({ trust: trustOf(options.configuration) });
    this.#fileSystems = new FileSystems(options.configuration, options.user);
  }

  /** Lists a container's log files. Returns an empty list if there are none, or if the logs are not available yet. */
  async files(owner: LogOwner): Promise<LogFile[]> {
    const container = checkedOwner(owner);
    const live = container.nodeHttp === null ? null : await this.#liveFiles(container, container.nodeHttp).catch(ifTicketNeeded);
    // A NodeManager returns an empty list for an unknown container.
    if (Array.isArray(live) && live.length > 0) {
      return live;
    }
    const aggregated = await this.#aggregated(container);
    if (aggregated === null && live instanceof TicketNeeded) {
      throw live;
    }
    return aggregated?.files.map(({ name, size }) => ({ name, size })) ?? [];
  }

  /** Reads a range of a log file. Returns null if the file does not exist yet. */
  async read(owner: LogOwner, file: string, range: LogRange): Promise<ContainerLogPiece | null> {
    const container = checkedOwner(owner);
    const { nodeHttp } = container;
    const live = nodeHttp === null ? 'unknown container' : await this.#readLive(container, nodeHttp, file, range).catch(ifTicketNeeded);
    if (live !== null && live !== 'unknown container' && !(live instanceof TicketNeeded)) {
      return live;
    }
    const looking = this.#aggregated(container);
    // If the file is missing on the node, it may already be on HDFS, because a NodeManager deletes log files after aggregating them, before
    // it removes the container. The file counts as missing if HDFS is unreachable.
    const aggregated = await (live === null ? looking.catch(() => null) : looking);
    if (aggregated === null && live instanceof TicketNeeded) {
      throw live;
    }
    const found = aggregated?.files.find(({ name }) => name === file);
    if (aggregated === null || found === undefined) {
      return null;
    }
    const limit = range.limit ?? LIMIT_BYTES;
    const offset = 'tail' in range ? Math.max(0, found.size - range.tail) : Math.min(range.offset, found.size);
    const length = Math.min(limit, found.size - offset);
    const bytes = await damaged(aggregated.path, () => readAggregatedFile(aggregated.source, found, offset, length));
    return { bytes, offset, size: found.size, complete: offset + length === found.size };
  }

  close(): void {
    this.#http.close();
    this.#fileSystems.close();
  }

  async #liveFiles(container: LogOwner, nodeHttp: string): Promise<LogFile[] | null> {
    const answer = await this.#askNode(nodeHttp, `${container.containerId}/logs`);
    if (answer === null || answer.status !== 200) {
      return null;
    }
    const listed = (parseJson(answer.body.toString('utf8')) as { containerLogsInfo?: unknown } | null)?.containerLogsInfo;
    // Jersey writes a one-element list as the element itself. Here, both the outer and the inner list can have this form.
    const infos = asList(listed).flatMap((info) => asList((info as { containerLogInfo?: unknown }).containerLogInfo));
    return infos.flatMap((info) => {
      const { fileName, fileSize } = info as { fileName?: unknown; fileSize?: unknown };
      return typeof fileName === 'string' ? [{ name: fileName, size: Number(fileSize) || 0 }] : [];
    });
  }

  /**
   * Reads a range from a NodeManager. A NodeManager can return only the first or the last bytes of a file. To read from an offset, the
   * method requests more and more of the last bytes until they include the offset.
   */
  async #readLive(
    container: LogOwner,
    nodeHttp: string,
    file: string,
    range: LogRange,
  ): Promise<ContainerLogPiece | null | 'unknown container'> {
    const limit = range.limit ?? LIMIT_BYTES;
    let fromEnd = 'tail' in range ? range.tail : SLACK_BYTES;
    for (let tries = 1; ; tries += 1) {
      const got = await this.#askForEnd(container, nodeHttp, file, fromEnd, (logLength) => {
        const start = Math.max(0, logLength - fromEnd);
        if ('tail' in range) {
          return { skip: 0, take: limit };
        }
        return start <= range.offset ? { skip: Math.min(range.offset, logLength) - start, take: limit } : null;
      });
      if (got === null || got === 'unknown container') {
        return got;
      }
      if ('bytes' in got) {
        return got;
      }
      if (tries === MAXIMUM_TRIES) {
        throw new TonyError('LOGS_UNAVAILABLE', `${file} of ${container.containerId} grows faster than it can be read.`);
      }
      fromEnd = got.logLength - ('offset' in range ? range.offset : 0) + SLACK_BYTES * 2 ** tries;
    }
  }

  /**
   * Requests the last `fromEnd` bytes of a file. `choose` selects the bytes to return, or returns null if the requested offset is not among
   * them.
   */
  async #askForEnd(
    container: LogOwner,
    nodeHttp: string,
    file: string,
    fromEnd: number,
    choose: (logLength: number) => { skip: number; take: number } | null,
  ): Promise<ContainerLogPiece | { readonly logLength: number } | null | 'unknown container'> {
    const url = this.#nodeUrl(nodeHttp, `${container.containerId}/logs/${encodeURIComponent(file)}`, { size: String(-fromEnd) });
    const response = await sendAs(
      this.#login,
      url,
      (at, headers) => this.#http.send({ method: 'GET', url: at, headers, idleTimeoutMs: IDLE_TIMEOUT_MS }),
      ({ statusCode }) => statusCode,
    ).catch(unlessExplained);
    if (response === null) {
      return 'unknown container';
    }
    try {
      if (response.statusCode === 401) {
        throw new TicketNeeded(nodeHttp);
      }
      if (response.statusCode !== 200) {
        const text = (await readWhole(response, MAXIMUM_ANSWER_BYTES)).toString('utf8');
        denied(text);
        return text.includes('Cannot find this log') ? null : 'unknown container';
      }
      const cursor = new ByteCursor(response);
      const isEmpty = await cursor.startsWith(FOOTER);
      const logLength = isEmpty ? 0 : logLengthOf(await cursor.takeThrough(CONTENTS, MAXIMUM_HEAD_BYTES));
      const part = choose(logLength);
      if (part === null) {
        return { logLength };
      }
      const contents = Math.min(fromEnd, logLength);
      const take = Math.min(part.take, contents - part.skip);
      await cursor.skip(part.skip);
      const bytes = await cursor.take(take);
      const reachesEnd = part.skip + take === contents;
      const complete = reachesEnd && !saysRunning(await cursor.takeRest(MAXIMUM_HEAD_BYTES));
      return { bytes, offset: logLength - contents + part.skip, size: logLength, complete };
    } catch (error) {
      if (error instanceof TonyError) {
        throw error;
      }
      throw new TonyError(
        'LOGS_UNAVAILABLE',
        `${file} of ${container.containerId} could not be read from ${nodeHttp}: ${messageOf(error)}`,
        { cause: error },
      );
    } finally {
      response.destroy();
    }
  }

  async #askNode(nodeHttp: string, path: string): Promise<HttpAnswer | null> {
    const headers = { Accept: 'application/json' };
    const url = this.#nodeUrl(nodeHttp, path, {});
    const answer = await sendAs(
      this.#login,
      url,
      (at, identity) =>
        this.#http.fetch(
          { method: 'GET', url: at, headers: { ...headers, ...identity }, idleTimeoutMs: IDLE_TIMEOUT_MS },
          { maximumBytes: MAXIMUM_ANSWER_BYTES },
        ),
      ({ status }) => status,
    ).catch(unlessExplained);
    if (answer?.status === 401) {
      throw new TicketNeeded(nodeHttp);
    }
    if (answer !== null && answer.status !== 200) {
      denied(answer.body.toString('utf8'));
    }
    return answer;
  }

  #nodeUrl(nodeHttp: string, path: string, query: Readonly<Record<string, string>>): URL {
    const scheme = this.#configuration.get('yarn.http.policy') === 'HTTPS_ONLY' ? 'https' : 'http';
    const url = new URL(`${scheme}://${nodeHttp}/ws/v1/node/containers/${path}`);
    url.search = new URLSearchParams(query).toString();
    return url;
  }

  /** Finds the container's log files on HDFS. Returns null if there are none. */
  async #aggregated(container: LogOwner): Promise<{ path: string; source: RangeSource; files: readonly AggregatedFile[] } | null> {
    const host = (container.node ?? container.nodeHttp)?.split(':')[0];
    for (const uri of aggregatedFolders(this.#configuration, container)) {
      const location = locationOf(uri);
      const target = location === null ? null : this.#fileSystems.locate(location).target;
      if (target === null) {
        continue;
      }
      const { fileSystem, path: folder } = target;
      const entries = ((await fileSystem.list(folder)) ?? []).filter(({ name, type }) => type === 'file' && !name.endsWith('.tmp'));
      // Each NodeManager writes one file, whose name begins with its host. Try the file from the container's node first.
      entries.sort((a, b) => Number(b.name.startsWith(`${host}_`)) - Number(a.name.startsWith(`${host}_`)));
      for (const entry of entries) {
        const path = `${folder}/${entry.name}`;
        const source: RangeSource = { size: entry.length, stream: (offset, length) => fileSystem.open(path, { offset, length }) };
        const files = (await this.#index(path, source)).filter(({ containerId }) => containerId === container.containerId);
        if (files.length > 0) {
          return { path, source, files };
        }
      }
    }
    return null;
  }

  #index(path: string, source: RangeSource): Promise<readonly AggregatedFile[]> {
    const known = this.#indexed.get(path);
    if (known !== undefined) {
      return Promise.resolve(known);
    }
    const underWay = this.#indexing.get(path);
    if (underWay !== undefined) {
      return underWay;
    }
    const indexing = damaged(path, () => indexAggregatedLog(source))
      .then((files) => {
        this.#indexed.set(path, files, partsOf(files));
        return files;
      })
      // Remove failed reads as well, so that the next call tries again.
      .finally(() => this.#indexing.delete(path));
    this.#indexing.set(path, indexing);
    return indexing;
  }
}

/**
 * Returns the URIs of the folders that can contain an application's aggregated logs. The first two are used by Hadoop 3.3 and newer, the
 * last one by older versions.
 */
export function aggregatedFolders(
  configuration: HadoopConfiguration,
  container: Pick<LogOwner, 'containerId' | 'owner'>,
): readonly string[] {
  const directory =
    configuration.get('yarn.log-aggregation.TFile.remote-app-log-dir') ?? configuration.get('yarn.nodemanager.remote-app-log-dir') ?? '';
  const suffix = configuration.get('yarn.nodemanager.remote-app-log-dir-suffix') ?? '';
  const tfileSuffix = configuration.get('yarn.log-aggregation.TFile.remote-app-log-dir-suffix') ?? `${suffix}-tfile`;
  const root = directory.startsWith('/') ? `${configuration.defaultFs}${directory}` : directory;
  if (!HDFS_URI.test(root)) {
    throw new TonyError('LOGS_UNAVAILABLE', `Aggregated logs are at ${directory} on ${configuration.defaultFs}, which is not HDFS.`);
  }
  const application = applicationOf(container.containerId);
  const bucket = String(parseContainerId(container.containerId).application.sequence % 10_000).padStart(4, '0');
  const base = `${withoutEnd(root, '/')}/${container.owner}`;
  return [
    `${base}/bucket-${tfileSuffix}/${bucket}/${application}`,
    `${base}/${tfileSuffix}/${application}`,
    `${base}/${suffix}/${application}`,
  ];
}

/**
 * Matches `host:port`, where the host is a name or an address. The match becomes part of a URL, so it must not contain characters that
 * change the URL.
 */
export const HOST_AND_PORT = /^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,254}|\[[0-9A-Fa-f:.]{2,45}\]):\d{1,5}$/;

function checkedOwner(owner: LogOwner): LogOwner {
  const { containerId, nodeHttp } = owner;
  const isAddress = nodeHttp !== null && HOST_AND_PORT.test(nodeHttp) && /^container_\w{1,100}$/.test(containerId);
  return isAddress ? owner : { ...owner, nodeHttp: null };
}

/**
 * Returns null for a connection failure, so that the container is treated as unknown. Rethrows errors that already explain their cause,
 * such as a missing ticket.
 */
function unlessExplained(error: unknown): null {
  if (error instanceof TonyError) {
    throw error;
  }
  return null;
}

/** Thrown by a process without a Kerberos ticket, because NodeManagers do not accept delegation tokens. */
class TicketNeeded extends TonyError {
  constructor(nodeHttp: string) {
    super('LOGS_UNAVAILABLE', `The NodeManager ${nodeHttp} shows logs only to users with a Kerberos ticket.`, {
      hint: 'Run `tony-ts logs APPLICATION_ID` on a machine where you have a ticket.',
    });
  }
}

/** Returns the error if only a ticket is missing, because the logs may already be on HDFS. Rethrows all other errors. */
function ifTicketNeeded(error: unknown): TicketNeeded {
  if (error instanceof TicketNeeded) {
    return error;
  }
  throw error;
}

function denied(text: string): void {
  if (!text.includes('not authorized')) {
    return;
  }
  throw new TonyError('ACCESS_DENIED', parseRemoteException(text)?.message ?? text.trim().slice(0, 300), {
    hint: "Ask the application's user to add you to acls.view.",
  });
}

async function damaged<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof TonyError) {
      throw error;
    }
    throw new TonyError('LOGS_UNAVAILABLE', `${path} cannot be read as an aggregated log: ${messageOf(error)}`, {
      hint: 'Read it with `yarn logs -applicationId ...` on a cluster node.',
      cause: error,
    });
  }
}

function asList(value: unknown): object[] {
  return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === 'object' && item !== null);
}
