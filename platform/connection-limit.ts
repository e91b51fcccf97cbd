import type { Socket } from 'node:net';

export interface ConnectionLimitOptions {
  readonly mostUnproven: number;
  /** Maximum total number of connections; default unlimited. */
  readonly most?: number;
  /**
   * Minimum age (ms) of an unproven connection before a new connection may replace it; default 0. If all unproven connections are younger,
   * the new connection is closed.
   */
  readonly graceMs?: number;
  /** Time (ms) after which an unproven connection is closed; default unlimited. */
  readonly deadlineMs?: number;
  readonly now?: () => number;
}

/** Address and port of a TCP connection's remote end. A TLS socket and its underlying socket have the same values. */
export type Peer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

interface Unproven {
  readonly socket: Socket;
  readonly since: number;
  readonly timer: NodeJS.Timeout | undefined;
}

/**
 * Limits the number of open connections of a server. A connection is unproven until its peer is authorised or the server answers its
 * request. At the limit, a new connection replaces the oldest unproven connection, so idle connections cannot block active clients.
 */
export class ConnectionLimit {
  readonly #options: ConnectionLimitOptions;
  readonly #now: () => number;
  /** Oldest first. */
  readonly #unproven = new Map<string, Unproven>();
  #count = 0;

  constructor(options: ConnectionLimitOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Registers a new connection. Closes it immediately if the limit is reached and no other connection may be closed. */
  admit(socket: Socket): void {
    const { most = Number.POSITIVE_INFINITY, mostUnproven } = this.#options;
    if ((this.#count >= most || this.#unproven.size >= mostUnproven) && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    const key = keyOf(socket);
    this.#count++;
    this.#wait(key, socket);
    socket.once('close', () => {
      this.#count--;
      // The map may already contain a newer connection from the same port.
      if (this.#unproven.get(key)?.socket === socket) {
        this.#settle(key);
      }
    });
  }

  /** Marks a connection as proven. Call this method when the peer is authorised, or when the server answers its request. */
  proven(peer: Peer): void {
    this.#settle(keyOf(peer));
  }

  /** Marks a connection as unproven until its next request. Call this method after a response. */
  answered(socket: Socket): void {
    if (!socket.destroyed) {
      this.#wait(keyOf(socket), socket);
    }
  }

  #wait(key: string, socket: Socket): void {
    const { deadlineMs } = this.#options;
    this.#settle(key);
    const timer = deadlineMs === undefined ? undefined : setTimeout(() => socket.destroy(), deadlineMs);
    timer?.unref();
    this.#unproven.set(key, { socket, since: this.#now(), timer });
  }

  #settle(key: string): void {
    clearTimeout(this.#unproven.get(key)?.timer);
    this.#unproven.delete(key);
  }

  #makeRoom(): boolean {
    const [oldest] = this.#unproven;
    if (oldest === undefined || this.#now() - oldest[1].since < (this.#options.graceMs ?? 0)) {
      return false;
    }
    this.#settle(oldest[0]);
    oldest[1].socket.destroy();
    return true;
  }
}

function keyOf({ remoteAddress = '', remotePort = 0 }: Peer): string {
  return `${remoteAddress} ${remotePort}`;
}
