import { messageOf, TonyError } from '../conf/errors.ts';
import { type AggregatedFile, indexAggregatedLog, readAggregatedFile } from './aggregated-log.ts';
import { applicationOf, parseContainerId } from './application-id.ts';
import { ByteCursor } from './byte-cursor.ts';
import type { HadoopConfiguration } from './configuration.ts';
import { type HttpAnswer, HttpClient, readWhole } from './http-client.ts';
import { CONTENTS, logLengthOf, MAXIMUM_HEAD_BYTES, saysRunning } from './node-log.ts';
import { parseRemoteException } from './remote-exception.ts';
import type { ByteSource } from './tfile.ts';
import { WebHdfs } from './web-hdfs.ts';

/** The container whose logs are wanted. */
export interface LogOwner {
  readonly containerId: string;
  /** `host:port` of its node's web server, when it is known: there the logs are until the application has ended. */
  readonly nodeHttp: string | null;
  /** The application's user. */
  readonly owner: string;
}

export interface LogFile {
  readonly name: string;
  readonly size: number;
}

export interface LogPiece {
  readonly bytes: Buffer;
  /** Of the first of `bytes` in the file. */
  readonly offset: number;
  /** Of the file, as far as it has been written. */
  readonly size: number;
  /** Nothing will come after `bytes`. */
  readonly complete: boolean;
}

/** `tail`: so many last bytes of the file. */
export type LogRange = ({ readonly offset: number } | { readonly tail: number }) & {
  /** No more bytes than that in one piece, the first of what is wanted; 4 MiB when it is left out. */
  readonly limit?: number;
};

const LIMIT_BYTES = 4 * 1024 * 1024;
const IDLE_TIMEOUT_MS = 10_000;
const MAXIMUM_ANSWER_BYTES = 1024 * 1024;
/** Asked for beyond what is wanted, for what the program writes in the meantime. */
const SLACK_BYTES = 64 * 1024;
const MAXIMUM_TRIES = 6;

/**
 * Log files of containers: while the application runs from the NodeManagers, after its end from what they have put together on HDFS.
 */
export class ContainerLogs {
  readonly #configuration: HadoopConfiguration;
  readonly #user: string;
  readonly #http = new HttpClient();
  readonly #fileSystems = new Map<string, WebHdfs>();
  /** By path on HDFS: these files do not change. */
  readonly #indexed = new Map<string, Promise<readonly AggregatedFile[]>>();

  constructor(options: { readonly configuration: HadoopConfiguration; readonly user: string }) {
    this.#configuration = options.configuration;
    this.#user = options.user;
  }

  /** Empty when the container has written nothing, or its logs are nowhere yet. */
  async files(container: LogOwner): Promise<LogFile[]> {
    const live = container.nodeHttp === null ? null : await this.#liveFiles(container, container.nodeHttp);
    // A node that no longer knows the container lists nothing.
    if (live !== null && live.length > 0) return live;
    const aggregated = await this.#aggregated(container);
    return aggregated?.files.map(({ name, size }) => ({ name, size })) ?? [];
  }

  /** null when there is no such file, or not yet. */
  async read(container: LogOwner, file: string, range: LogRange): Promise<LogPiece | null> {
    const live = container.nodeHttp === null ? 'unknown container' : await this.#readLive(container, container.nodeHttp, file, range);
    if (live !== null && live !== 'unknown container') return live;
    const looking = this.#aggregated(container);
    // A node removes the files that it has put on HDFS before it forgets their container; where HDFS is not to be seen, its word counts.
    const aggregated = await (live === null ? looking.catch(() => null) : looking);
    const found = aggregated?.files.find(({ name }) => name === file);
    if (aggregated === null || found === undefined) return null;
    const limit = range.limit ?? LIMIT_BYTES;
    const offset = 'tail' in range ? Math.max(0, found.size - range.tail) : Math.min(range.offset, found.size);
    const length = Math.min(limit, found.size - offset);
    const bytes = await damaged(aggregated.path, () => readAggregatedFile(aggregated.source, found, offset, length));
    return { bytes, offset, size: found.size, complete: offset + length === found.size };
  }

  close(): void {
    this.#http.close();
    for (const fileSystem of this.#fileSystems.values()) fileSystem.close();
  }

  async #liveFiles(container: LogOwner, nodeHttp: string): Promise<LogFile[] | null> {
    const answer = await this.#askNode(nodeHttp, `${container.containerId}/logs`);
    if (answer === null || answer.status !== 200) return null;
    const listed = (parsed(answer.body) as { containerLogsInfo?: unknown } | null)?.containerLogsInfo;
    // Jersey writes a list of one as the element itself, and so it does with the list around it.
    const infos = asList(listed).flatMap((info) => asList((info as { containerLogInfo?: unknown }).containerLogInfo));
    return infos.flatMap((info) => {
      const { fileName, fileSize } = info as { fileName?: unknown; fileSize?: unknown };
      return typeof fileName === 'string' ? [{ name: fileName, size: Number(fileSize) || 0 }] : [];
    });
  }

  /**
   * The node gives the first or the last bytes of a file only, so that a range from an offset is asked for from the end, with slack, until
   * what comes begins early enough.
   */
  async #readLive(container: LogOwner, nodeHttp: string, file: string, range: LogRange): Promise<LogPiece | null | 'unknown container'> {
    const limit = range.limit ?? LIMIT_BYTES;
    let fromEnd = 'tail' in range ? range.tail : SLACK_BYTES;
    for (let tries = 1; ; tries += 1) {
      const got = await this.#askForEnd(container, nodeHttp, file, fromEnd, (logLength) => {
        const start = Math.max(0, logLength - fromEnd);
        if ('tail' in range) return { skip: 0, take: limit };
        return start <= range.offset ? { skip: Math.min(range.offset, logLength) - start, take: limit } : null;
      });
      if (got === null || got === 'unknown container') return got;
      if ('bytes' in got) return got;
      if (tries === MAXIMUM_TRIES)
        throw new TonyError('LOGS_UNAVAILABLE', `${file} of ${container.containerId} grows faster than it can be read.`);
      fromEnd = got.logLength - ('offset' in range ? range.offset : 0) + SLACK_BYTES * 2 ** tries;
    }
  }

  /** `choose` says which part of what comes is wanted, or null when it begins too late. */
  async #askForEnd(
    container: LogOwner,
    nodeHttp: string,
    file: string,
    fromEnd: number,
    choose: (logLength: number) => { skip: number; take: number } | null,
  ): Promise<LogPiece | { readonly logLength: number } | null | 'unknown container'> {
    const url = this.#nodeUrl(nodeHttp, `${container.containerId}/logs/${encodeURIComponent(file)}`, { size: String(-fromEnd) });
    const response = await this.#http.send({ method: 'GET', url, idleTimeoutMs: IDLE_TIMEOUT_MS }).catch(() => null);
    if (response === null) return 'unknown container';
    try {
      if (response.statusCode !== 200) {
        const text = (await readWhole(response, MAXIMUM_ANSWER_BYTES)).toString('utf8');
        denied(text);
        return text.includes('Cannot find this log') ? null : 'unknown container';
      }
      const cursor = new ByteCursor(response);
      const logLength = logLengthOf(await cursor.takeThrough(CONTENTS, MAXIMUM_HEAD_BYTES));
      const part = choose(logLength);
      if (part === null) return { logLength };
      const contents = Math.min(fromEnd, logLength);
      const take = Math.min(part.take, contents - part.skip);
      await cursor.skip(part.skip);
      const bytes = await cursor.take(take);
      const reachesEnd = part.skip + take === contents;
      const complete = reachesEnd && !saysRunning(await cursor.takeRest(MAXIMUM_HEAD_BYTES));
      return { bytes, offset: logLength - contents + part.skip, size: logLength, complete };
    } catch (error) {
      if (error instanceof TonyError) throw error;
      throw new TonyError(
        'LOGS_UNAVAILABLE',
        `${file} of ${container.containerId} could not be read from ${nodeHttp}: ${messageOf(error)}`,
        { cause: error },
      );
    } finally {
      response.destroy();
    }
  }

  /** null when the node cannot be reached. */
  async #askNode(nodeHttp: string, path: string): Promise<HttpAnswer | null> {
    const headers = { Accept: 'application/json' };
    const url = this.#nodeUrl(nodeHttp, path, {});
    const answer = await this.#http
      .fetch({ method: 'GET', url, headers, idleTimeoutMs: IDLE_TIMEOUT_MS }, { maximumBytes: MAXIMUM_ANSWER_BYTES })
      .catch(() => null);
    if (answer !== null && answer.status !== 200) denied(answer.body.toString('utf8'));
    return answer;
  }

  #nodeUrl(nodeHttp: string, path: string, query: Readonly<Record<string, string>>): URL {
    const scheme = this.#configuration.get('yarn.http.policy') === 'HTTPS_ONLY' ? 'https' : 'http';
    const url = new URL(`${scheme}://${nodeHttp}/ws/v1/node/containers/${path}`);
    url.search = new URLSearchParams({ ...query, ...(this.#configuration.secure ? {} : { 'user.name': this.#user }) }).toString();
    return url;
  }

  /** The container's files on HDFS, and what reads them; null when they are not there. */
  async #aggregated(container: LogOwner): Promise<{ path: string; source: ByteSource; files: readonly AggregatedFile[] } | null> {
    const { authority, folders } = aggregatedFolders(this.#configuration, container);
    const fileSystem = this.#fileSystem(authority);
    const host = container.nodeHttp?.split(':')[0];
    for (const folder of folders) {
      const entries = ((await fileSystem.list(folder)) ?? []).filter(({ name, type }) => type === 'file' && !name.endsWith('.tmp'));
      // One file a node, named host_port: the container's own first.
      entries.sort((a, b) => Number(b.name.startsWith(`${host}_`)) - Number(a.name.startsWith(`${host}_`)));
      for (const entry of entries) {
        const path = `${folder}/${entry.name}`;
        const source: ByteSource = { size: entry.length, stream: (offset, length) => fileSystem.open(path, { offset, length }) };
        const files = (await this.#index(path, source)).filter(({ containerId }) => containerId === container.containerId);
        if (files.length > 0) return { path, source, files };
      }
    }
    return null;
  }

  #index(path: string, source: ByteSource): Promise<readonly AggregatedFile[]> {
    let indexed = this.#indexed.get(path);
    if (indexed === undefined) {
      indexed = damaged(path, () => indexAggregatedLog(source));
      this.#indexed.set(path, indexed);
      // The next one who asks may have more luck.
      indexed.catch(() => this.#indexed.delete(path));
    }
    return indexed;
  }

  #fileSystem(authority: string): WebHdfs {
    let fileSystem = this.#fileSystems.get(authority);
    if (fileSystem === undefined) {
      fileSystem = WebHdfs.of(this.#configuration, authority, this.#user);
      this.#fileSystems.set(authority, fileSystem);
    }
    return fileSystem;
  }
}

/** Where NodeManagers put an application's logs: Hadoop 3.3's place, then older ones. */
export function aggregatedFolders(
  configuration: HadoopConfiguration,
  container: Pick<LogOwner, 'containerId' | 'owner'>,
): { readonly authority: string; readonly folders: readonly string[] } {
  const directory =
    configuration.get('yarn.log-aggregation.TFile.remote-app-log-dir') ?? configuration.get('yarn.nodemanager.remote-app-log-dir') ?? '';
  const suffix = configuration.get('yarn.nodemanager.remote-app-log-dir-suffix') ?? '';
  const tfileSuffix = configuration.get('yarn.log-aggregation.TFile.remote-app-log-dir-suffix') ?? `${suffix}-tfile`;
  const [, authority, path = directory] = /^hdfs:\/\/([^/]*)(\/.*)$/.exec(directory) ?? [];
  const defaultAuthority = /^hdfs:\/\/([^/]+)/.exec(configuration.defaultFs)?.[1];
  const chosen = authority || defaultAuthority;
  if (chosen === undefined || !path.startsWith('/')) {
    throw new TonyError('LOGS_UNAVAILABLE', `Aggregated logs are at ${directory} on ${configuration.defaultFs}, which is no HDFS.`);
  }
  const application = applicationOf(container.containerId);
  const bucket = String(parseContainerId(container.containerId).application.sequence % 10_000).padStart(4, '0');
  const base = `${path.replace(/\/+$/, '')}/${container.owner}`;
  return {
    authority: chosen,
    folders: [
      `${base}/bucket-${tfileSuffix}/${bucket}/${application}`,
      `${base}/${tfileSuffix}/${application}`,
      `${base}/${suffix}/${application}`,
    ],
  };
}

function denied(text: string): void {
  if (!text.includes('not authorized')) return;
  throw new TonyError('ACCESS_DENIED', parseRemoteException(text)?.message ?? text.trim().slice(0, 300), {
    hint: "Ask the application's user to name you among those who may view it (acls.view).",
  });
}

async function damaged<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof TonyError) throw error;
    throw new TonyError('LOGS_UNAVAILABLE', `${path} cannot be read as an aggregated log: ${messageOf(error)}`, {
      hint: 'Read it with `yarn logs -applicationId ...` on a node of the cluster.',
      cause: error,
    });
  }
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
}

function asList(value: unknown): object[] {
  return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === 'object' && item !== null);
}
