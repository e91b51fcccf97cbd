import { once } from 'node:events';
import { chmod, mkdir, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { ANSWER_LIMITS, encodeFrame, REQUEST_LIMITS, readFrame, type ServiceFrame } from '../../contract/services/service-frame.ts';
import { socketPath } from '../../contract/services/service-socket.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';

/** Maximum number of concurrent requests. Limits memory usage, because each request may buffer an entire response. */
const AT_ONCE = 16;
/** Timeout in ms for a complete request, starting when the connection is opened. */
const REQUEST_MS = 10_000;
const UNAVAILABLE: ServiceFrame = { head: Buffer.from(JSON.stringify({ unavailable: true })), body: Buffer.alloc(0) };

export interface ServicesSocketOptions {
  /** Absolute path of the folder for the socket. `open` creates the folder so that only the current user can access it. */
  readonly folder: string;
  /** Forwards a request. Returns null if no ApplicationMaster can be reached. */
  readonly ask: (service: string, body: Uint8Array, signal: AbortSignal) => Promise<ServiceFrame | null>;
  readonly log: Logger;
}

/**
 * The Unix socket that connects the user's program to the ApplicationMaster's services. Only the current user can access the socket's
 * folder. Each run has its own socket, so that an old program that is still running cannot use the services.
 */
export class ServicesSocket {
  readonly folder: string;
  readonly #options: ServicesSocketOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #release: () => void;

  private constructor(options: ServicesSocketOptions, server: Server, release: () => void) {
    this.folder = options.folder;
    this.#options = options;
    this.#server = server;
    this.#release = release;
    server.on('connection', (socket) => void this.#serve(socket));
  }

  /** @throws if the socket cannot be created */
  static async open(options: ServicesSocketOptions): Promise<ServicesSocket> {
    const { folder } = options;
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { mode: 0o700, recursive: true });
    // mkdir applies the umask, so set the mode separately.
    await chmod(folder, 0o700);
    const place = socketPath(folder);
    const server = createServer();
    server.maxConnections = AT_ONCE;
    try {
      await once(server.listen(place.path), 'listening');
      await chmod(path.join(folder, 'socket'), 0o600);
    } catch (error) {
      place.release();
      throw error;
    }
    server.on('error', (error) => options.log.warn({ error: messageOf(error) }, 'the services socket failed'));
    return new ServicesSocket(options, server, place.release);
  }

  close(): void {
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    this.#server.close(() => this.#release());
  }

  async #serve(socket: Socket): Promise<void> {
    const gone = new AbortController();
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#sockets.delete(socket);
      gone.abort();
    });
    const deadline = setTimeout(() => socket.destroy(), REQUEST_MS);
    try {
      const request = await readFrame(socket, REQUEST_LIMITS);
      clearTimeout(deadline);
      const { service } = JSON.parse(Buffer.from(request.head).toString('utf8')) as { service?: unknown };
      if (typeof service !== 'string' || service.length > 100) {
        throw new Error('the request does not name a service');
      }
      const answer = (await this.#options.ask(service, request.body, gone.signal)) ?? UNAVAILABLE;
      if (answer.head.length > ANSWER_LIMITS.head || answer.body.length > ANSWER_LIMITS.body) {
        throw new Error('the answer is too large');
      }
      socket.end(encodeFrame(answer));
    } catch (error) {
      if (!gone.signal.aborted) {
        this.#options.log.warn({ error: messageOf(error) }, 'could not answer a request from the program');
      }
      socket.destroy();
    } finally {
      clearTimeout(deadline);
    }
  }
}
