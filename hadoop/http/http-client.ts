import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { type Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { DEFAULT_TRUST, type ServerTrust } from '../tls/server-trust.ts';
import { tlsFailure } from '../tls/tls-failure.ts';

export interface HttpRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers?: OutgoingHttpHeaders;
  /** Maximum time in ms without any data in either direction. A request's total duration is unlimited. */
  readonly idleTimeoutMs: number;
  /** Returns true while the transfer is waiting for this process. The idle timeout does not apply during this time. */
  readonly isHeldByUs?: () => boolean;
}

/** Connection timeout in ms. It detects hosts that do not respond because they are switched off. */
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_SOCKETS_PER_HOST = 32;

/**
 * An HTTP client with keep-alive connections and idle timeouts. The client ignores proxy settings in the environment, because a cluster's
 * daemons are on the local network. It uses only Node's built-in modules, to save memory in executors.
 */
export class HttpClient {
  readonly #http = new HttpAgent({ keepAlive: true, maxSockets: MAX_SOCKETS_PER_HOST });
  readonly #anyCertificate: boolean;
  readonly #trust: ServerTrust;
  #https: HttpsAgent | null = null;

  /**
   * @param options.trust defaults to Node's certificate authorities
   * @param options.anyCertificate disables certificate verification; use it only for servers that are identified by their address alone,
   * such as a server on this host
   */
  constructor(options: { readonly trust?: ServerTrust; readonly anyCertificate?: boolean } = {}) {
    this.#trust = options.trust ?? DEFAULT_TRUST;
    this.#anyCertificate = options.anyCertificate ?? false;
  }

  /** Starts a request. The caller writes the body and calls end(). */
  start(request: HttpRequest): ClientRequest {
    const { url, method, headers } = request;
    const secure = url.protocol === 'https:';
    if (secure) {
      this.#https ??= this.#trust.agent({ maxSockets: MAX_SOCKETS_PER_HOST, rejectUnauthorized: !this.#anyCertificate });
    }
    const agent = secure && this.#https !== null ? this.#https : this.#http;
    const sent = (secure ? httpsRequest : httpRequest)(url, { method, agent, ...(headers === undefined ? {} : { headers }) });
    sent.once('socket', (socket) => watch(sent, socket, request));
    return sent;
  }

  /** Sends a request with an optional small body. Resolves when the response headers have arrived. */
  send(request: HttpRequest, body?: Uint8Array): Promise<IncomingMessage> {
    const sent = this.start(request);
    const answer = headOf(sent);
    sent.end(body);
    return answer;
  }

  async fetch(request: HttpRequest, options: { readonly maximumBytes: number; readonly body?: Uint8Array }): Promise<HttpAnswer> {
    const response = await this.send(request, options.body);
    const body = await readWhole(response, options.maximumBytes);
    return { status: response.statusCode ?? 0, headers: response.headers, body };
  }

  close(): void {
    this.#http.destroy();
    this.#https?.destroy();
  }
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/** Resolves when the response headers have arrived. Rejects if the request fails first. TLS errors become TonyError TLS_FAILED. */
export function headOf(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.once('response', resolve);
    // Keep this listener after the first error, because Node.js throws if a later `error` event has no listener.
    sent.on('error', (error) => reject(tlsFailure(error, new URL(`${sent.protocol}//${sent.getHeader('host')}`)) ?? error));
  });
}

/** Reads the whole response. Rejects if the response exceeds the limit. */
export async function readWhole(response: IncomingMessage, maximumBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Throwing inside the loop also destroys the response and its connection.
    if (size > maximumBytes) {
      throw new Error(`the response is larger than ${maximumBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

function watch(sent: ClientRequest, socket: Socket, request: HttpRequest): void {
  const connectMs = Math.min(CONNECT_TIMEOUT_MS, request.idleTimeoutMs);
  const onTimeout = (): void => {
    if (request.isHeldByUs?.()) {
      socket.setTimeout(request.idleTimeoutMs);
    } else {
      sent.destroy(timeoutError(socket.connecting, socket.connecting ? connectMs : request.idleTimeoutMs));
    }
  };
  const onConnect = (): void => {
    socket.setTimeout(request.idleTimeoutMs);
  };
  if (socket.connecting) {
    socket.setTimeout(connectMs);
    socket.once('connect', onConnect);
  } else {
    onConnect();
  }
  socket.on('timeout', onTimeout);
  sent.once('close', () => {
    // Remove the listeners, because the agent may reuse the socket.
    socket.off('timeout', onTimeout);
    socket.off('connect', onConnect);
    socket.setTimeout(0);
  });
}

function timeoutError(connecting: boolean, ms: number): NodeJS.ErrnoException {
  return Object.assign(new Error(connecting ? `no connection within ${ms} ms` : `no progress for ${ms} ms`), { code: 'ETIMEDOUT' });
}
