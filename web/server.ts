import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messageOf } from '../conf/errors.ts';
import type { Logger } from '../conf/log.ts';
import { answerText } from './answer.ts';

/** What a server shows. */
export interface Site {
  /** Answers the request wholly; a rejection is answered with 500. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

/** A ResourceManager passes on up to 64 KiB of request line and headers; other gateways may add their own. */
const MAX_HEADER_BYTES = 128 << 10;
/** For the headers of a request; for all of it; without any byte in either direction. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const SILENCE_MS = 120_000;
/** Beyond it, connections are refused: somebody opens them without end. */
const MAX_CONNECTIONS = 512;

/** An HTTP server for one site, with bounds on what a client may take of its time and memory. */
export class WebServer {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** @param options.port 0, the default, lets the system choose. */
  static async open(options: { address: string; port?: number; site: Site; log: Logger }): Promise<WebServer> {
    const { address, port = 0, site, log } = options;
    const limits = {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: 5000,
    };
    const server = createServer(limits, (request, response) => {
      // A client that has gone is no error of ours.
      response.on('error', () => {});
      site.handle(request, response).catch((error: unknown) => {
        log.error({ error: messageOf(error), path: request.url?.split('?', 1)[0] }, 'a request for the pages failed');
        if (response.headersSent) response.destroy();
        else answerText(request, response, 500, 'This page could not be made: the log says why.');
      });
    });
    server.maxConnections = MAX_CONNECTIONS;
    server.setTimeout(SILENCE_MS);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, address, () => {
        server.off('error', reject);
        server.on('error', (error) => log.error({ error: error.message }, 'the web server failed'));
        resolve();
      });
    });
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
