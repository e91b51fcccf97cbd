import { Agent, type ClientRequestArgs, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { TensorBoardTarget } from './tensorboard-target.ts';

export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, beginning with a slash. */
  readonly path: string;
  /** Lower-case names, without hop-by-hop headers and credentials. */
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer | null;
}

/** `absent`: TensorBoard is unreachable. `late`: TensorBoard exceeded the deadline. `busy`: too many requests are in progress. */
export class UpstreamError extends Error {
  readonly kind: 'absent' | 'late' | 'busy';

  constructor(kind: UpstreamError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/**
 * Deadlines in ms for connecting and for the response headers. Headers may take long, because TensorBoard reads many files for some
 * responses.
 */
const CONNECT_MS = 5_000;
const ANSWER_MS = 60_000;
/** How long idle connections stay open, in ms. */
const IDLE_MS = 15_000;
const MAX_CONNECTIONS = 16;
const MAX_IDLE = 4;
const MAX_IN_PROGRESS = 256;

/**
 * The request headers to forward. The proxy drops cookies, Authorization and headers that identify the client, and sets its own Host
 * header.
 */
const FORWARDED = [
  'accept',
  'accept-language',
  'content-type',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'range',
  'user-agent',
  'x-tensorboard-feature-flags',
  'x-xsrf-protected',
];

/** Sends requests to TensorBoard over connections that `target` opens. */
export class ReverseProxy {
  readonly #target: TensorBoardTarget;
  readonly #agent: ConnectingAgent;
  readonly #newConnections: ConnectingAgent;
  #inProgress = 0;

  constructor(target: TensorBoardTarget) {
    this.#target = target;
    this.#agent = new ConnectingAgent(target, { keepAlive: true });
    this.#newConnections = new ConnectingAgent(target, { keepAlive: false });
  }

  /**
   * Sends a request and returns the response. The caller must read or destroy the response's body.
   * @throws UpstreamError, or `signal`'s abort reason.
   */
  async send(request: UpstreamRequest, signal: AbortSignal): Promise<IncomingMessage> {
    if (this.#target.connect === null) {
      throw new UpstreamError('absent', 'TensorBoard is not available');
    }
    if (this.#inProgress >= MAX_IN_PROGRESS) {
      throw new UpstreamError('busy', `${MAX_IN_PROGRESS} requests are in progress`);
    }
    this.#inProgress++;
    try {
      const response = await this.#try(request, signal, this.#agent).catch((error: unknown) => {
        // TensorBoard may have closed the idle connection just before this request, so the proxy retries once on a new connection.
        if (error instanceof StaleConnection) {
          return this.#try(request, signal, this.#newConnections);
        }
        throw error;
      });
      response.once('close', () => this.#inProgress--);
      return response;
    } catch (error) {
      this.#inProgress--;
      throw error;
    }
  }

  close(): void {
    this.#agent.destroy();
    this.#newConnections.destroy();
  }

  #try({ method, path, headers, body }: UpstreamRequest, signal: AbortSignal, agent: Agent): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const forwarded = Object.fromEntries(FORWARDED.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])));
      const outgoing = httpRequest({
        agent,
        method,
        path,
        signal,
        headers: {
          ...forwarded,
          Host: 'tensorboard',
          // Requests only encodings that the proxy can decompress, because it rewrites pages.
          'Accept-Encoding': 'gzip',
          ...(body !== null && { 'Content-Length': body.length }),
        },
      });
      const timer = setTimeout(() => outgoing.destroy(new UpstreamError('late', `no response within ${ANSWER_MS / 1000} s`)), ANSWER_MS);
      outgoing.once('response', (response) => {
        clearTimeout(timer);
        resolve(response);
      });
      // This listener also handles errors after the response headers. By then, the promise has settled, and the response emits the same
      // error.
      outgoing.on('error', (error) => {
        clearTimeout(timer);
        if (signal.aborted || error instanceof UpstreamError) {
          reject(signal.aborted ? signal.reason : error);
        } else if (outgoing.reusedSocket) {
          reject(new StaleConnection(error.message, { cause: error }));
        } else {
          reject(new UpstreamError('absent', error.message, { cause: error }));
        }
      });
      outgoing.end(body ?? undefined);
    });
  }
}

class StaleConnection extends Error {}

class ConnectingAgent extends Agent {
  readonly #target: TensorBoardTarget;

  constructor(target: TensorBoardTarget, { keepAlive }: { readonly keepAlive: boolean }) {
    super({ keepAlive, maxSockets: MAX_CONNECTIONS, maxFreeSockets: MAX_IDLE, timeout: IDLE_MS });
    this.#target = target;
  }

  override createConnection(_options: ClientRequestArgs): Duplex {
    try {
      const connection = this.#target.connect?.();
      if (connection === undefined) {
        throw new Error('TensorBoard is not available');
      }
      closeUnlessConnected(connection);
      return connection;
    } catch (error) {
      // The agent may call this method while it completes another request, and an exception would make that request fail. The connection
      // therefore reports its error asynchronously.
      const failed = new Duplex({ read() {}, write() {} });
      process.nextTick(() => failed.destroy(error as Error));
      return failed;
    }
  }

  /** Only sockets support keep-alive. */
  override keepSocketAlive(connection: Duplex): boolean {
    if (!(connection instanceof Socket)) {
      return false;
    }
    // Node.js documents a boolean result, but the type declaration says void.
    return (super.keepSocketAlive(connection) as unknown as boolean | undefined) !== false;
  }
}

function closeUnlessConnected(connection: Duplex): void {
  if (!(connection instanceof Socket) || !connection.connecting) {
    return;
  }
  const late = (): void => void connection.destroy(new UpstreamError('late', `no connection within ${CONNECT_MS / 1000} s`));
  const timer = setTimeout(late, CONNECT_MS);
  const done = (): void => clearTimeout(timer);
  connection.once(connection instanceof TLSSocket ? 'secureConnect' : 'connect', done).once('close', done);
}
