import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { feedToken } from '../../contract/partitions/feed-token.ts';
import { REQUEST_LIMITS, type ServiceFrame } from '../../contract/services/service-frame.ts';
import { ConnectionLimit, withinDescriptors } from '../../platform/connection-limit.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { sameSecret } from '../../platform/same-secret.ts';
import type { Secret } from '../../platform/secret.ts';

/** Time in ms after which a connection without data is closed. */
const IDLE_MS = 120_000;
const HEADERS_MS = 10_000;
const KEEPALIVE_MS = 30_000;
/** Maximum number of connections in all, and of those whose client has not sent the token yet. */
const MAXIMUM_CONNECTIONS = 2_048;
const MAXIMUM_UNPROVEN = 256;
/** Minimum age in ms at which a connection without a token may be closed to make room for a new one. */
const GRACE_MS = 1_000;
const PIECE = /^\/feeds\/([\w.-]{1,100})\/(\d{1,7})\/(\d{1,7})$/;
const REQUEST = /^\/requests\/([\w.-]{1,100})\/(arrow|pickle|end)$/;
const SOURCE = /^\/source\/(open|plan|offer|stream)$/;

export type SourceRequest = 'open' | 'plan' | 'offer' | 'stream';

export interface DoorOptions {
  readonly host: string;
  readonly certificate: Secret;
  readonly privateKey: Secret;
  /** Stores a piece. Returns false if this task does not want the piece. */
  readonly receive: (feed: string, rank: number, index: number, body: IncomingMessage) => Promise<boolean>;
  /** Lets the program answer a request. Returns the path of the reply, or the status to respond with. */
  readonly answer: (feed: string, format: 'arrow' | 'pickle', body: IncomingMessage, signal: AbortSignal) => Promise<string | 404 | 503>;
  /** The client of a feed sends no more requests. */
  readonly end: (feed: string) => void;
  /** Forwards a source's request to the ApplicationMaster. Returns null if it cannot be reached. */
  readonly forward: (request: SourceRequest, body: Uint8Array, signal: AbortSignal) => Promise<ServiceFrame | null>;
  readonly log: Logger;
}

/**
 * The HTTPS server at which sources outside the job send partitions. It uses the job's certificate, and requires the feed token as a bearer
 * token.
 *
 *     PUT  /feeds/FEED/RANK/INDEX   a piece, as received-pieces.ts describes it. 200: stored. 409: not wanted
 *     POST /requests/FEED/arrow     records, in the format of a piece. 200: the program's reply. 404: no program of this task answers such
 *          or pickle, end           requests. 503: try another task. `end`: there are no more requests
 *     POST /source/open, plan,      a request of the source, as JSON. 200: answer or error. 503: no ApplicationMaster can be reached
 *          offer or stream
 */
export class Door {
  readonly #options: DoorOptions;
  readonly #server: Server;
  readonly #limit: ConnectionLimit;
  readonly #token: string;
  readonly port: number;

  private constructor(options: DoorOptions, server: Server, limit: ConnectionLimit) {
    this.#options = options;
    this.#limit = limit;
    this.#server = server;
    this.#token = feedToken(options.privateKey);
    this.port = (server.address() as AddressInfo).port;
    server.on('request', (request, response) => void this.#serve(request, response));
    server.on('error', (error) => options.log.warn({ error: messageOf(error) }, 'the server for partitions failed'));
  }

  /** @throws if no port can be bound */
  static async open(options: DoorOptions): Promise<Door> {
    const { certificate, privateKey, host } = options;
    const limit = new ConnectionLimit({
      most: MAXIMUM_CONNECTIONS,
      mostUnproven: withinDescriptors(MAXIMUM_UNPROVEN),
      graceMs: GRACE_MS,
      deadlineMs: HEADERS_MS,
    });
    const server = createServer({
      cert: Buffer.from(certificate.reveal()),
      key: Buffer.from(privateKey.reveal()),
      minVersion: 'TLSv1.3',
      handshakeTimeout: HEADERS_MS,
      headersTimeout: HEADERS_MS,
      // A large piece takes as long as it takes, as long as data arrives.
      requestTimeout: 0,
    });
    server.on('connection', (socket) => limit.admit(socket as Socket));
    server.timeout = IDLE_MS;
    await once(server.listen(0, (await lookup(host)).address), 'listening');
    return new Door(options, server, limit);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on('error', () => {});
    response.on('error', () => {});
    const { method, url = '', headers } = request;
    if (!sameSecret(`Bearer ${this.#token}`, headers.authorization ?? '')) {
      this.#options.log.warn({ peer: request.socket.remoteAddress }, "rejected a source without the feed's token");
      refuse(request, response, 401);
      return;
    }
    this.#limit.proven(request.socket);
    const piece = method === 'PUT' ? PIECE.exec(url) : null;
    const asked = method === 'POST' ? REQUEST.exec(url) : null;
    const source = method === 'POST' ? SOURCE.exec(url) : null;
    try {
      if (piece !== null) {
        const [, feed = '', rank, index] = piece;
        waitPatiently(request);
        const isStored = await this.#options.receive(feed, Number(rank), Number(index), request);
        if (isStored) {
          respond(response, 200, '{}');
        } else {
          refuse(request, response, 409);
        }
      } else if (asked !== null) {
        await this.#request(asked[1] ?? '', asked[2] as 'arrow' | 'pickle' | 'end', request, response);
      } else if (source !== null) {
        await this.#forward(source[1] as SourceRequest, request, response);
      } else {
        refuse(request, response, 404);
      }
    } catch (error) {
      this.#options.log.warn({ url, error: messageOf(error) }, 'rejected a request from a source');
      if (response.headersSent) {
        response.destroy();
      } else {
        refuse(request, response, 400);
      }
    }
  }

  async #request(feed: string, format: 'arrow' | 'pickle' | 'end', request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (format === 'end') {
      this.#options.end(feed);
      respond(response, 200, '{}');
      return;
    }
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    waitPatiently(request);
    const reply = await this.#options.answer(feed, format, request, gone.signal);
    if (typeof reply === 'number') {
      refuse(request, response, reply);
      return;
    }
    try {
      const { size } = await stat(reply);
      response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': size });
      await pipeline(createReadStream(reply), response);
    } finally {
      await rm(reply, { force: true });
    }
  }

  async #forward(name: SourceRequest, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of request) {
      length += (chunk as Buffer).length;
      if (length > REQUEST_LIMITS.body) {
        throw new Error('the request is too large');
      }
      chunks.push(chunk as Buffer);
    }
    const answer = await this.#options.forward(name, Buffer.concat(chunks), gone.signal);
    if (answer === null) {
      respond(response, 503, '{}');
    } else {
      respond(response, 200, Buffer.from(answer.head));
    }
  }
}

function respond(response: ServerResponse, status: number, body: string | Buffer): void {
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
}

/** Lets an authenticated client or the program take any time, as long as the client's machine answers keepalive probes. */
function waitPatiently({ socket }: IncomingMessage): void {
  socket.setTimeout(0);
  socket.setKeepAlive(true, KEEPALIVE_MS);
}

/** Responds without reading the request's body. The connection cannot be used again. */
function refuse(request: IncomingMessage, response: ServerResponse, status: number): void {
  response.writeHead(status, { connection: 'close', 'content-length': 0 }).end();
  response.on('finish', () => request.destroy());
}
