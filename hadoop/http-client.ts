import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';

export interface HttpRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers?: OutgoingHttpHeaders;
  /** Ends the request when neither end has sent a byte for so long; the time in all has no limit. */
  readonly idleTimeoutMs: number;
  /** While true the silence is ours (a slow reader, a slow source) and no reason to hang up. */
  readonly isHeldByUs?: () => boolean;
}

/** Until the connection stands: a host that is switched off does not answer at all. */
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_SOCKETS_PER_HOST = 32;

/**
 * Plain HTTP with connections that are kept, and deadlines that follow progress. Proxies of the environment are not asked: the
 * daemons of a cluster are near. Nothing but Node's own modules, since executors have little memory.
 */
export class HttpClient {
  readonly #http = new HttpAgent({ keepAlive: true, maxSockets: MAX_SOCKETS_PER_HOST });
  readonly #anyCertificate: boolean;
  #https: HttpsAgent | null = null;

  /** @param options.anyCertificate a server with any certificate will do; only where its address alone says who it is, as on this very host. */
  constructor(options: { readonly anyCertificate?: boolean } = {}) {
    this.#anyCertificate = options.anyCertificate ?? false;
  }

  /** The request, to be written to and ended by the caller. */
  start(request: HttpRequest): ClientRequest {
    const { url, method, headers } = request;
    const secure = url.protocol === 'https:';
    if (secure) {
      this.#https ??= new HttpsAgent({ keepAlive: true, maxSockets: MAX_SOCKETS_PER_HOST, rejectUnauthorized: !this.#anyCertificate });
    }
    const agent = secure && this.#https !== null ? this.#https : this.#http;
    const sent = (secure ? httpsRequest : httpRequest)(url, { method, agent, ...(headers === undefined ? {} : { headers }) });
    sent.once('socket', (socket) => watch(sent, socket, request));
    return sent;
  }

  /** A request with a small body or none; resolves when the head of the answer is there. */
  send(request: HttpRequest, body?: Uint8Array): Promise<IncomingMessage> {
    const sent = this.start(request);
    const answer = headOf(sent);
    sent.end(body);
    return answer;
  }

  /** The same with the answer read to its end. */
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

/** Resolves with the head of the answer; rejects with what broke the connection before it. */
export function headOf(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.once('response', resolve);
    // Not `once`: what breaks after the head belongs to the response, but must not be an unhandled event here.
    sent.on('error', reject);
  });
}

/** The whole answer, refused before it is taken in when it is larger than it may be. */
export async function readWhole(response: IncomingMessage, maximumBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Leaving the loop destroys the response, and its connection.
    if (size > maximumBytes) throw new Error(`the answer is larger than ${maximumBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

function watch(sent: ClientRequest, socket: Socket, request: HttpRequest): void {
  const connectMs = Math.min(CONNECT_TIMEOUT_MS, request.idleTimeoutMs);
  const onTimeout = (): void => {
    if (request.isHeldByUs?.()) socket.setTimeout(request.idleTimeoutMs);
    else sent.destroy(timeoutError(socket.connecting, socket.connecting ? connectMs : request.idleTimeoutMs));
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
    // The connection may serve other requests after this one.
    socket.off('timeout', onTimeout);
    socket.off('connect', onConnect);
    socket.setTimeout(0);
  });
}

function timeoutError(connecting: boolean, ms: number): NodeJS.ErrnoException {
  return Object.assign(new Error(connecting ? `no connection within ${ms} ms` : `no progress for ${ms} ms`), { code: 'ETIMEDOUT' });
}
