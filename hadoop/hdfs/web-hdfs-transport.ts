import type { IncomingMessage } from 'node:http';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { redirectOfGateway } from '../configuration/file-systems/gateway.ts';
import { type HttpAnswer, HttpClient, type HttpRequest, readWhole } from '../http/http-client.ts';
import {
  demandsLogin,
  isTransient,
  parseRemoteException,
  type RemoteException,
  storageError,
  transientOutcome,
} from '../http/remote-exception.ts';
import { AddressRound, type Outcome, outcomeOf } from '../rpc/address-round.ts';
import { type Login, sendAs, withQuery } from '../security/login.ts';
import type { ServerTrust } from '../tls/server-trust.ts';
import { reportSkippedServer } from '../tls/skipped-servers.ts';
import { jsonOf, leavesGateway, notWebHdfs, refusal, unreachable } from './web-hdfs-answers.ts';

export interface WebHdfsOptions {
  /** Maximum time in ms to find an active NameNode. */
  readonly maxWaitMs?: number;
  /** Maximum time in ms to wait for the first response from any NameNode. Defaults to `maxWaitMs`. */
  readonly maxFirstWaitMs?: number;
  /**
   * Time in ms after which a NameNode that accepts a request without responding is given up, if no NameNode has responded before. Defaults
   * to `idleTimeoutMs`.
   */
  readonly firstAnswerTimeoutMs?: number;
  /** Time in ms after which a connection without traffic is closed. */
  readonly idleTimeoutMs?: number;
}

/** How to reach a file system's servers, and how to authenticate to them. */
export interface WebHdfsServers {
  /** Base URLs of the NameNode web servers, or the gateway's base URL. */
  readonly addresses: readonly string[];
  readonly login: Login;
  readonly trust?: ServerTrust;
  /** True for HttpFS and Knox. All requests then go to the gateway, including those that transfer file content. */
  readonly isGateway?: boolean;
  /** The reason why the addresses may be wrong, or null if they are certainly correct. */
  readonly doubt?: string | null;
}

const MAX_WAIT_MS = 15_000;
const IDLE_TIMEOUT_MS = 60_000;
/** Maximum size of a response, which is enough to list about 300,000 files. */
const MAXIMUM_ANSWER_BYTES = 96 * 1024 * 1024;
const MAXIMUM_ERROR_BYTES = 256 * 1024;

/** A transfer of file content to or from a DataNode. */
export interface Transfer<T> {
  readonly method: 'GET' | 'PUT';
  readonly operation: 'OPEN' | 'CREATE';
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly successes: readonly number[];
  /** Sends the request to the DataNode or gateway. Do not log the URL or the headers: they may contain secrets. */
  readonly send: (
    http: HttpClient,
    url: URL,
    idleTimeoutMs: number,
    headers: Readonly<Record<string, string>>,
  ) => Promise<{ readonly response: IncomingMessage; readonly result: T }>;
  /**
   * Called before a retry. Throws to prevent the retry. `untrusted` is the error if the client does not trust the DataNode's certificate.
   */
  readonly beforeRepeat?: (reason: string, untrusted: TonyError | undefined) => void | Promise<void>;
}

/** The server to which a transfer is sent. */
interface TransferUrl {
  readonly url: URL;
  /** True if the server requires the sender's identity. For a DataNode, the value is false because the URL already contains a token. */
  readonly needsIdentity: boolean;
}

/**
 * Sends WebHDFS requests to the active NameNode. A NameNode serves metadata itself. For file content, the NameNode returns the URL of a
 * DataNode, either as a redirect with status 307 or, with `noredirect=true`, as `{"Location": ...}` with status 200.
 *
 * Gateways differ: HttpFS sends file content without a redirect, and redirects uploads to itself with `data=true`. Knox redirects both
 * downloads and uploads to itself, but does not rewrite the JSON that `noredirect=true` returns.
 */
export class WebHdfsTransport {
  readonly #round: AddressRound;
  readonly #http: HttpClient;
  readonly #login: Login;
  readonly #idleTimeoutMs: number;
  readonly #firstAnswerTimeoutMs: number;
  readonly #isGateway: boolean;
  readonly #doubt: string | null;

  constructor(options: WebHdfsOptions & WebHdfsServers) {
    this.#round = new AddressRound(options.addresses, options.maxWaitMs ?? MAX_WAIT_MS, { maxFirstWaitMs: options.maxFirstWaitMs });
    this.#idleTimeoutMs = options.idleTimeoutMs ?? IDLE_TIMEOUT_MS;
    this.#firstAnswerTimeoutMs = options.firstAnswerTimeoutMs ?? this.#idleTimeoutMs;
    this.#login = options.login;
    this.#isGateway = options.isGateway ?? false;
    this.#doubt = options.doubt ?? null;
    this.#http = new HttpClient(options.trust === undefined ? {} : { trust: options.trust });
  }

  /**
   * Runs an operation on the NameNode. In the result, `mayHaveHappened` is true if the response to an earlier attempt was lost. In that
   * case, the NameNode may already have executed the operation. `server` is the origin of the server that has answered.
   */
  async call(
    method: 'GET' | 'PUT' | 'DELETE',
    operation: string,
    path: string,
    parameters: Readonly<Record<string, string>> = {},
  ): Promise<
    | { readonly json: Record<string, unknown>; readonly server: string; readonly mayHaveHappened: boolean }
    | { readonly remote: RemoteException; readonly mayHaveHappened: boolean }
  > {
    let mayHaveHappened = false;
    const ended = await this.#round.run<{ json: Record<string, unknown>; server: string } | { remote: RemoteException }>(
      async (address) => {
        let answer: { status: number; body: Buffer };
        const url = webHdfsUrl(address, path, operation, parameters);
        try {
          const fetch = (at: URL, headers: HttpRequest['headers'] & object): Promise<HttpAnswer> =>
            this.#http.fetch({ method, url: at, headers, idleTimeoutMs: this.#answerTimeoutMs }, { maximumBytes: MAXIMUM_ANSWER_BYTES });
          answer = await sendAs(this.#login, url, fetch, ({ status }) => status);
        } catch (error) {
          if (error instanceof TonyError) {
            return outcomeOf(error);
          }
          if (!isConnectionFailure(error)) {
            throw notWebHdfs(messageOf(error), url.origin);
          }
          mayHaveHappened = true;
          return { again: messageOf(error) };
        }
        const text = answer.body.toString('utf8');
        if (answer.status === 200) {
          return { result: { json: jsonOf(text, operation, url), server: url.origin } };
        }
        const remote = parseRemoteException(text);
        if (remote === null || demandsLogin(remote)) {
          return refusal(answer.status, path, url, remote);
        }
        return isTransient(remote) ? transientOutcome(remote) : { result: { remote } };
      },
    );
    if ('reason' in ended) {
      throw unreachable(`${operation} ${path}`, ended, this.#doubt);
    }
    return { ...ended.result, mayHaveHappened };
  }

  /**
   * Transfers file content to or from the DataNode that the NameNode selects. If the transfer fails or the DataNode's certificate is not
   * trusted, asks a NameNode again, because it may select another DataNode.
   */
  async transfer<T>(what: string, { method, operation, path, parameters, successes, send, beforeRepeat }: Transfer<T>): Promise<T> {
    const untrusted = new Map<string, TonyError>();
    const ended = await this.#round.run<T>(async (address) => {
      const url = webHdfsUrl(address, path, operation, parameters);
      const found =
        this.#isGateway && operation === 'OPEN' ? { result: { url, needsIdentity: true } } : await this.#locate(method, url, path);
      if ('again' in found) {
        return found;
      }
      let rejected: TonyError | undefined;
      const outcome = await this.#interpret(url, path, successes, async () => {
        const answer = await this.#sendContent(method, found.result, send);
        const isRedirect = this.#isGateway && method === 'GET' && answer.response.statusCode === 307;
        return isRedirect ? this.#sendContent(method, this.#follow(url, drained(answer.response)), send) : answer;
      }).catch((error: unknown) => {
        if (this.#isGateway || !(error instanceof TonyError)) {
          throw error;
        }
        const { again, rejected: failure } = outcomeOf(error);
        rejected = failure;
        untrusted.set(failure.message, failure);
        return { again };
      });
      if ('again' in outcome) {
        await beforeRepeat?.(outcome.again, rejected);
      }
      return outcome;
    });
    const [failure] = untrusted.values();
    if ('reason' in ended) {
      throw failure ?? unreachable(what, ended, this.#doubt);
    }
    for (const each of untrusted.values()) {
      reportSkippedServer(each);
    }
    return ended.result;
  }

  close(): void {
    this.#round.close();
    this.#http.close();
  }

  /** Timeout in ms for a response from a NameNode. */
  get #answerTimeoutMs(): number {
    return this.#round.hasAnswered ? this.#idleTimeoutMs : this.#firstAnswerTimeoutMs;
  }

  /** Requests the URL of the server that transfers the content. The URL may contain a token, so it must not be logged. */
  async #locate(method: 'GET' | 'PUT', url: URL, path: string): Promise<Outcome<TransferUrl>> {
    const asked = new URL(url);
    if (!this.#isGateway) {
      asked.searchParams.set('noredirect', 'true');
    }
    let location: string | undefined;
    const outcome = await this.#interpret(url, path, [200, 307], async () => {
      const response = await sendAs(
        this.#login,
        asked,
        (at, headers) => this.#http.send({ method, url: at, headers, idleTimeoutMs: this.#answerTimeoutMs }),
        ({ statusCode }) => statusCode,
      );
      if (response.statusCode === 200) {
        const answer = jsonOf((await readWhole(response, MAXIMUM_ERROR_BYTES)).toString('utf8'), 'noredirect=true', url);
        location = typeof answer.Location === 'string' ? answer.Location : undefined;
      } else if (response.statusCode === 307) {
        location = drained(response);
      }
      return { response, result: true };
    }).catch((error: unknown) => {
      if (error instanceof TonyError) {
        return outcomeOf(error);
      }
      throw error;
    });
    return 'again' in outcome ? outcome : { result: this.#follow(url, location) };
  }

  /** Returns the URL to which a server redirects a transfer. */
  #follow(asked: URL, location: string | undefined): TransferUrl {
    if (location === undefined || (!this.#isGateway && !URL.canParse(location))) {
      throw notWebHdfs('its response does not name the server of the file content', asked.origin);
    }
    if (!this.#isGateway) {
      const url = new URL(location);
      return { url, needsIdentity: url.origin === asked.origin };
    }
    const url = redirectOfGateway(asked, location);
    if (url === null) {
      throw leavesGateway(asked, location);
    }
    return { url, needsIdentity: true };
  }

  /** Sends a transfer's request. After HTTP 401, retries only downloads, because an upload's source may be readable only once. */
  async #sendContent<T>(
    method: 'GET' | 'PUT',
    { url, needsIdentity }: TransferUrl,
    send: Transfer<T>['send'],
  ): Promise<{ readonly response: IncomingMessage; readonly result: T }> {
    const sendTo = (at: URL, headers: Readonly<Record<string, string>>) => send(this.#http, at, this.#idleTimeoutMs, headers);
    if (!needsIdentity) {
      return sendTo(url, {});
    }
    if (method === 'GET') {
      return sendAs(this.#login, url, sendTo, ({ response }) => response.statusCode);
    }
    const { query, headers } = await this.#login.identify(url);
    return sendTo(withQuery(url, query), headers);
  }

  /** Makes one attempt. Returns its result, or the reason for a retry. Throws if the server rejects the request. */
  async #interpret<T>(
    url: URL,
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
      // The server may have rejected an upload before reading all the data.
      response.destroy();
    } catch (error) {
      if (error instanceof TonyError || !isConnectionFailure(error)) {
        throw error;
      }
      return { again: messageOf(error) };
    }
    const remote = parseRemoteException(refused.text);
    if (remote === null || demandsLogin(remote)) {
      return refusal(refused.status, path, url, remote);
    }
    if (isTransient(remote)) {
      return transientOutcome(remote);
    }
    throw storageError(remote, path);
  }
}

/** Discards a redirect's body, so that the connection can be reused. Returns the redirect's location. */
function drained(response: IncomingMessage): string | undefined {
  response.resume();
  return response.headers.location;
}

function webHdfsUrl(address: string, path: string, operation: string, parameters: Readonly<Record<string, string>>): URL {
  const url = new URL(`${address}/webhdfs/v1${path.split('/').map(encodeURIComponent).join('/')}`);
  url.search = new URLSearchParams({ op: operation, ...parameters }).toString();
  return url;
}

/** Returns true for socket errors and HTTP parser errors. Unlike programming errors, they have a code. */
function isConnectionFailure(error: unknown): boolean {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === 'string' && !(error instanceof TypeError);
}
