import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { type Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { DEFAULT_TRUST, type ServerTrust } from '../tls/server-trust.ts';
import { tlsFailure } from '../tls/tls-failure.ts';

export interface HttpRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers?: OutgoingHttpHeaders;
  /** Aborts the request after this time (ms) without a byte in either direction. The total duration is unlimited. */
  readonly idleTimeoutMs: number;
  /** Returns true while this process itself is slow to read or to supply data; the idle timeout then does not apply. */
  readonly isHeldByUs?: () => boolean;
}

/** Maximum time to connect. A host that is switched off does not respond at all. */
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_SOCKETS_PER_HOST = 32;

/**
 * An HTTP client with keep-alive connections and idle timeouts. It ignores the proxies in the environment, because the daemons of a cluster
 * are in the local network. It uses only Node's built-in modules, because executors have little memory.
 */
export class HttpClient {
  readonly #http = new HttpAgent({ keepAlive: true, maxSockets: MAX_SOCKETS_PER_HOST });
  readonly #anyCertificate: boolean;
  readonly #trust: ServerTrust;
  #https: HttpsAgent | null = null;

  /**
   * @param options.trust default: Node's authorities.
   * @param options.anyCertificate accepts any server certificate. Use it only for a server that its address alone identifies, such as a
   * server on this host.
   */
  constructor(options: { readonly trust?: ServerTrust; readonly anyCertificate?: boolean } = {}) {
    this.#trust = options.trust ?? DEFAULT_TRUST;
    this.#anyCertificate = options.anyCertificate ?? false;
  }

  /** Starts a request. The caller writes the body and ends the request. */
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

  /** Sends a request with a small body or without a body; resolves with the head of the response. */
  send(request: HttpRequest, body?: Uint8Array): Promise<IncomingMessage> {
    const sent = this.start(request);
    const answer = headOf(sent);
    sent.end(body);
    return answer;
  }

  /** Sends a request and reads the whole response. */
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

/** Resolves with the head of the response; rejects if an error occurs before the head has arrived. TLS errors become TonyError TLS_FAILED. */
export function headOf(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.once('response', resolve);
    // Not `once`: Node.js throws a later error of the request if the request has no listener.
    sent.on('error', (error) => reject(tlsFailure(error, new URL(`${sent.protocol}//${sent.getHeader('host')}`)) ?? error));
  });
}

/** Reads the whole response; rejects as soon as it exceeds the limit. */
export async function readWhole(response: IncomingMessage, maximumBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    // The end of the loop destroys the response and its connection.
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
    // Another request may reuse the socket.
    socket.off('timeout', onTimeout);
    socket.off('connect', onConnect);
    socket.setTimeout(0);
  });
}

function timeoutError(connecting: boolean, ms: number): NodeJS.ErrnoException {
  return Object.assign(new Error(connecting ? `no connection within ${ms} ms` : `no progress for ${ms} ms`), { code: 'ETIMEDOUT' });
}
