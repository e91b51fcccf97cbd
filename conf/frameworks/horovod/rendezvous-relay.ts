import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { messageOf } from '../../../platform/errors.ts';
import type { TaskService, TaskServiceOptions } from '../framework.ts';
import { LARGEST_RENDEZVOUS_KEY, LARGEST_RENDEZVOUS_VALUE, RENDEZVOUS_GET, RENDEZVOUS_PUT, RENDEZVOUS_REMOVE } from './service-names.ts';

/*
 * A line of /proc/net/tcp describes a socket; see proc_net_tcp(5):
 *
 *   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ...
 *    0: 0100007F:A2B8 0100007F:22B8 01 00000000:00000000 00:00000000 00000000  1000        0 81730 ...
 *
 * An address is a 32-bit word in hexadecimal, in the byte order of the machine. A port is in hexadecimal as well.
 */

const LOOPBACK = hex(new Uint32Array(Uint8Array.of(127, 0, 0, 1).buffer)[0] as number, 8);

/**
 * Returns the user ID of the process that has a connection from `clientPort` to `serverPort` on 127.0.0.1, or null if there is no such
 * connection.
 * @param text contents of /proc/net/tcp
 */
export function loopbackOwner(text: string, clientPort: number, serverPort: number): number | null {
  const addresses = ` ${LOOPBACK}:${hex(clientPort, 4)} ${LOOPBACK}:${hex(serverPort, 4)} `;
  const at = text.indexOf(addresses);
  const user = at < 0 ? undefined : text.slice(at + addresses.length).split(/\s+/, 5)[4];
  return user === undefined ? null : Number(user);
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}

/*
 * Horovod's processes publish the addresses of their Gloo connections in a key-value store, over HTTP without TLS or credentials
 * (horovod/common/gloo/http_store.cc). Each connection carries one request:
 *
 *   PUT /SCOPE/KEY       with the value as the body
 *   GET /SCOPE/KEY       200 with the value, or 404. The client repeats the request every 10 ms until the key exists
 *   DELETE /SCOPE/RANK   the process with this rank has connected to all others, so its entries are no longer needed
 *
 * SCOPE is `global`, `local_HOSTNAME` or `cross_LOCALRANK`, with a suffix for a process set. If KEY is a rank, the value contains the
 * addresses of that process. If KEY is `rank_` with a rank, the value is the host name. Clients wait only for addresses.
 */

const HOST = '127.0.0.1';
/** Maximum number of concurrent connections. There are at most 16 processes, and each opens one connection. */
const AT_ONCE = 256;
/** Timeout in ms for a complete request, starting when the connection is opened. */
const REQUEST_MS = 10_000;
const PATH = /^\/[\w.-]+\/(rank_)?(\d{1,9})$/;

interface Reply {
  readonly status: number;
  readonly body?: Uint8Array;
}

/**
 * An HTTP server on 127.0.0.1 that relays requests from the processes in one run to the rendezvous store in the ApplicationMaster. Responds
 * only to processes that run as the same user as the executor.
 */
export class RendezvousRelay implements TaskService {
  readonly #options: TaskServiceOptions;
  readonly #server: Server;
  /** A promise for each connection. It resolves to true if the connection was opened by a process that runs as this user. */
  readonly #checks = new WeakMap<Socket, Promise<boolean>>();
  /** The entries that this task's processes have stored in the ApplicationMaster. */
  readonly #own = new Map<string, Buffer>();
  readonly #closing = new AbortController();
  #reported = false;

  private constructor(options: TaskServiceOptions) {
    this.#options = options;
    this.#server = createServer({ requestTimeout: REQUEST_MS, keepAlive: false }, (request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        if (!response.destroyed) {
          options.log.warn({ error: messageOf(error) }, 'could not answer a rendezvous request');
        }
        response.destroy();
      });
    });
    this.#server.maxConnections = AT_ONCE;
    this.#server.on('connection', (socket) => this.#checks.set(socket, this.#check(socket)));
  }

  /** @throws if no port can be bound */
  static async open(options: TaskServiceOptions): Promise<RendezvousRelay> {
    const relay = new RendezvousRelay(options);
    const server = relay.#server;
    await once(server.listen(0, HOST), 'listening');
    server.on('error', (error) => options.log.warn({ error: messageOf(error) }, 'the rendezvous relay failed'));
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Sends this task's entries to a new ApplicationMaster attempt. */
  async repeat(): Promise<void> {
    for (const [key, value] of this.#own) {
      await this.#ask(RENDEZVOUS_PUT, { key, value: value.toString('base64') }, this.#closing.signal);
      if (!this.#own.has(key)) {
        await this.#ask(RENDEZVOUS_REMOVE, { key }, this.#closing.signal);
      }
    }
  }

  close(): void {
    this.#closing.abort();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Closes a connection from another user's process immediately, so that it does not count toward the maximum. */
  async #check(socket: Socket): Promise<boolean> {
    const isOwn = await isOwnUser(socket).catch((error: unknown) => {
      this.#options.log.error({ error: messageOf(error) }, 'cannot read /proc/net/tcp, and therefore accepts no rendezvous requests');
      return false;
    });
    if (!isOwn) {
      this.#options.log.warn({ port: socket.remotePort }, "closed a connection from another user's process to the rendezvous relay");
      socket.destroy();
    }
    return isOwn;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    if ((await this.#checks.get(request.socket)) !== true) {
      return;
    }
    const { status, body = Buffer.alloc(0) } = await this.#reply(request, gone.signal);
    // Horovod's client recognises the header only with this spelling.
    response.writeHead(status, { 'Content-Length': body.length, Connection: 'close' }).end(body);
  }

  async #reply(request: IncomingMessage, signal: AbortSignal): Promise<Reply> {
    const { method = '', url = '' } = request;
    const [, host, rank] = PATH.exec(url) ?? [];
    if (rank === undefined || url.length > LARGEST_RENDEZVOUS_KEY) {
      return { status: 404 };
    }
    const key = url.slice(1);
    switch (method) {
      case 'PUT': {
        const value = await bodyOf(request);
        if (value === null) {
          return { status: 413 };
        }
        this.#own.set(key, value);
        return await this.#ask(RENDEZVOUS_PUT, { key, value: value.toString('base64') }, signal);
      }
      case 'GET':
        return await this.#ask(RENDEZVOUS_GET, { key, wait: host === undefined }, signal);
      case 'DELETE': {
        const scope = key.slice(0, key.lastIndexOf('/'));
        await this.#remove(`${scope}/rank_${rank}`, signal);
        return await this.#remove(`${scope}/${rank}`, signal);
      }
      default:
        return { status: 405 };
    }
  }

  async #remove(key: string, signal: AbortSignal): Promise<Reply> {
    this.#own.delete(key);
    return await this.#ask(RENDEZVOUS_REMOVE, { key }, signal);
  }

  async #ask(service: string, body: object, signal: AbortSignal): Promise<Reply> {
    const frame = await this.#options.ask(service, Buffer.from(JSON.stringify(body)), signal);
    if (frame === null) {
      // Horovod's client retries.
      return { status: 503 };
    }
    const { answer, error } = JSON.parse(Buffer.from(frame.head).toString('utf8')) as {
      answer?: unknown;
      error?: { readonly code: string; readonly message: string };
    };
    if (error !== undefined) {
      this.#report(error);
      return { status: 507 };
    }
    return answer === 'missing' ? { status: 404 } : { status: 200, body: frame.body };
  }

  /** Tells the user that the store is full. Does so only once, because Horovod's client keeps repeating the request. */
  #report({ code, message }: { readonly code: string; readonly message: string }): void {
    this.#options.log.warn({ code, error: message }, 'the ApplicationMaster rejected a rendezvous request');
    if (code === 'RENDEZVOUS_FULL' && !this.#reported) {
      this.#reported = true;
      this.#options.notice(`Horovod's processes cannot connect: ${message}`);
    }
  }
}

async function isOwnUser({ remoteAddress, remotePort = 0, localPort = 0 }: Socket): Promise<boolean> {
  if (remoteAddress !== HOST) {
    return false;
  }
  const user = loopbackOwner(await readFile('/proc/net/tcp', 'latin1'), remotePort, localPort);
  return user !== null && user === process.getuid?.();
}

/** Returns null if the body is too large. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > LARGEST_RENDEZVOUS_VALUE) {
      return null;
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}
