import type { IncomingMessage } from 'node:http';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type HttpAnswer, HttpClient, type HttpRequest, readWhole } from '../http/http-client.ts';
import { isTransient, parseRemoteException, type RemoteException, storageError } from '../http/remote-exception.ts';
import { AddressRound, type Outcome } from '../rpc/address-round.ts';
import { type Login, sendAs } from '../security/login.ts';
import type { ServerTrust } from '../tls/server-trust.ts';
import { jsonOf, notWebHdfs, refusal, unreachable } from './web-hdfs-answers.ts';

export interface WebHdfsOptions {
  /** How long (ms) an operation searches for an active NameNode before it fails. */
  readonly patienceMs?: number;
  /** The same limit (ms) until a NameNode has responded once; default `patienceMs`. */
  readonly firstPatienceMs?: number;
  /** Maximum idle time of a connection (ms). */
  readonly idleTimeoutMs?: number;
}

/** The NameNodes of a file system. */
export interface WebHdfsServers {
  /** Base URLs of their web servers. */
  readonly addresses: readonly string[];
  readonly login: Login;
  readonly trust?: ServerTrust;
}

const PATIENCE_MS = 15_000;
const IDLE_TIMEOUT_MS = 60_000;
/** Enough for about 300,000 files in one folder. */
const MAXIMUM_ANSWER_BYTES = 96 * 1024 * 1024;
const MAXIMUM_ERROR_BYTES = 256 * 1024;

/** A transfer of file content from or to a DataNode. */
export interface Transfer<T> {
  readonly method: 'GET' | 'PUT';
  readonly operation: 'OPEN' | 'CREATE';
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** The statuses of a successful response. */
  readonly successes: readonly number[];
  /** Sends the request to the DataNode's URL. Never print the URL: it may contain a token. */
  readonly send: (http: HttpClient, url: URL, idleTimeoutMs: number) => Promise<{ readonly response: IncomingMessage; readonly result: T }>;
  /** Called before a failed transfer is repeated. May throw to end the transfer. */
  readonly beforeRepeat?: (reason: string) => void | Promise<void>;
}

/**
 * Sends WebHDFS requests; tries the NameNodes in turn. A NameNode serves metadata itself. For file content, it returns the URL of a
 * DataNode: as a redirect with status 307, or with `noredirect=true` as `{"Location": ...}` with status 200.
 */
export class WebHdfsTransport {
  readonly #round: AddressRound;
  readonly #http: HttpClient;
  readonly #login: Login;
  readonly #idleTimeoutMs: number;

  constructor(options: WebHdfsOptions & WebHdfsServers) {
    this.#round = new AddressRound(options.addresses, options.patienceMs ?? PATIENCE_MS, { firstPatienceMs: options.firstPatienceMs });
    this.#idleTimeoutMs = options.idleTimeoutMs ?? IDLE_TIMEOUT_MS;
    this.#login = options.login;
    this.#http = new HttpClient(options.trust === undefined ? {} : { trust: options.trust });
  }

  /** Runs an operation that the NameNode serves. `mayHaveHappened`: an earlier attempt without a response may have been executed. */
  async call(
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
        const url = webHdfsUrl(address, path, operation, parameters);
        const fetch = (at: URL, headers: HttpRequest['headers'] & object): Promise<HttpAnswer> =>
          this.#http.fetch({ method, url: at, headers, idleTimeoutMs: this.#idleTimeoutMs }, { maximumBytes: MAXIMUM_ANSWER_BYTES });
        answer = await sendAs(this.#login, url, fetch, ({ status }) => status);
      } catch (error) {
        if (error instanceof TonyError) {
          throw error;
        }
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

  /** Reads or writes file content at the DataNode that the NameNode selects. */
  async transfer<T>(what: string, { method, operation, path, parameters, successes, send, beforeRepeat }: Transfer<T>): Promise<T> {
    const ended = await this.#round.run<T>(async (address) => {
      const found = await this.#locate(method, webHdfsUrl(address, path, operation, { ...parameters, noredirect: 'true' }), path);
      if ('again' in found) {
        return found;
      }
      const outcome = await this.#interpret(path, successes, () => send(this.#http, found.result, this.#idleTimeoutMs));
      if ('again' in outcome) {
        await beforeRepeat?.(outcome.again);
      }
      return outcome;
    });
    if ('reason' in ended) {
      throw unreachable(what, ended.reason);
    }
    return ended.result;
  }

  close(): void {
    this.#round.close();
    this.#http.close();
  }

  /** Requests the DataNode's URL from the NameNode. Never print the URL: it may contain a token. */
  async #locate(method: 'GET' | 'PUT', url: URL, path: string): Promise<Outcome<URL>> {
    let location: string | undefined;
    const outcome = await this.#interpret(path, [200, 307], async () => {
      const response = await sendAs(
        this.#login,
        url,
        (at, headers) => this.#http.send({ method, url: at, headers, idleTimeoutMs: this.#idleTimeoutMs }),
        ({ statusCode }) => statusCode,
      );
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
      throw notWebHdfs('a redirect has no Location');
    }
    return { result: new URL(location) };
  }

  /** Makes one attempt. Returns its result or the reason for another attempt; throws if the server rejects the request. */
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
      // The server does not read the rest of a rejected upload.
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
}

/** Builds the URL of a request, without the identity of the sender. */
function webHdfsUrl(address: string, path: string, operation: string, parameters: Readonly<Record<string, string>>): URL {
  const url = new URL(`${address}/webhdfs/v1${path.split('/').map(encodeURIComponent).join('/')}`);
  url.search = new URLSearchParams({ op: operation, ...parameters }).toString();
  return url;
}

/** True for socket errors and errors of Node's HTTP parser, which have a code; programming errors do not. */
function isConnectionFailure(error: unknown): boolean {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === 'string' && !(error instanceof TypeError);
}
