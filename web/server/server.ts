import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { ConnectionLimit, withinDescriptors } from '../../platform/connection-limit.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { answerText } from './answer.ts';
import { plainAddress } from './plain-address.ts';

export interface JobPages {
  /** Sends the complete response. If the promise rejects, the server responds with 500. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Returns whether viewers may connect from this address. If this method is absent, the server expects connections from all addresses. */
  expects?(address: string): boolean;
}

/** Enables HTTPS and accepts only clients with a certificate issued by `clientAuthority`. All values are PEM. */
export interface ServerTls {
  readonly key: string;
  /** The server's certificate, followed by its intermediate certificates. */
  readonly certificate: string;
  readonly clientAuthority: string;
}

/**
 * The maximum size of the request line and headers, in bytes. A ResourceManager forwards up to 64 KiB, and other gateways may add headers.
 */
const MAX_HEADER_BYTES = 128 << 10;
/** The deadlines for the request headers and for the complete request, and the idle timeout for connections, all in ms. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const SILENCE_MS = 120_000;
/** Maximum number of connections. When it is reached, a new connection replaces the oldest connection without a request in progress. */
const MAX_CONNECTIONS = 512;
/** Maximum number of connections from unexpected addresses. The server rejects all of their requests. */
const MAX_UNEXPECTED = 16;

/** An HTTP server for one site. Limits the time and memory that clients can consume. */
export class WebServer {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** @param options.port 0, the default, lets the system choose the port. */
  static async open(options: {
    address: string;
    port?: number;
    site: JobPages;
    log: Logger;
    mostConnections?: number;
    /** Without TLS options, the server uses plain HTTP. */
    tls?: ServerTls | null;
  }): Promise<WebServer> {
    const { address, port = 0, site, log, mostConnections = withinDescriptors(MAX_CONNECTIONS), tls = null } = options;
    const limits = {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: 5000,
    };
    const expected = new ConnectionLimit({ mostUnproven: mostConnections, most: mostConnections });
    const unexpected = new ConnectionLimit({ mostUnproven: MAX_UNEXPECTED, most: MAX_UNEXPECTED });
    const limitOf = new WeakMap<Socket, ConnectionLimit>();
    /** The TCP socket underlying each TLS connection, keyed by peer address. */
    const plainSocketOf = new Map<string, Socket>();
    const listener: RequestListener = (request, response) => {
      const socket = plainSocketOf.get(peerOf(request.socket)) ?? request.socket;
      const limit = limitOf.get(socket);
      limit?.proven(socket);
      response.once('close', () => limit?.answered(socket));
      // A client may disconnect at any time.
      response.on('error', () => {});
      site.handle(request, response).catch((error: unknown) => {
        log.error({ error: messageOf(error), path: request.url?.split('?', 1)[0] }, 'a request for the pages failed');
        if (response.headersSent) {
          response.destroy();
        } else {
          answerText(request, response, 500, 'The server could not create this page. Its log states the reason.');
        }
      });
    };
    const server = tls === null ? createServer(limits, listener) : createTlsServer({ ...limits, ...tlsOptions(tls) }, listener);
    server.on('connection', (socket: Socket) => {
      if (tls !== null) {
        const peer = peerOf(socket);
        plainSocketOf.set(peer, socket);
        socket.once('close', () => plainSocketOf.get(peer) === socket && plainSocketOf.delete(peer));
      }
      const limit = (site.expects?.(plainAddress(socket.remoteAddress ?? '')) ?? true) ? expected : unexpected;
      limitOf.set(socket, limit);
      limit.admit(socket);
    });
    server.setTimeout(SILENCE_MS);
    await once(server.listen(port, address), 'listening');
    server.on('error', (error) => log.error({ error: error.message }, 'the web server failed'));
    return new WebServer(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

function tlsOptions({ key, certificate, clientAuthority }: ServerTls): TlsOptions {
  return { key, cert: certificate, ca: clientAuthority, requestCert: true, rejectUnauthorized: true, handshakeTimeout: HEADERS_MS };
}

function peerOf({ remoteAddress = '', remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
