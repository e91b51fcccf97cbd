import type { Socket } from 'node:net';

export interface ConnectionLimitOptions {
  /** Maximum number of unproven connections. */
  readonly mostUnproven: number;
  /** Maximum number of all connections; unlimited by default. */
  readonly most?: number;
  /**
   * Minimum age (ms) at which an unproven connection may be closed in favour of a new one; default 0. If all unproven connections are
   * younger, the new connection is closed.
   */
  readonly graceMs?: number;
  /** Time (ms) after which an unproven connection is closed; unlimited by default. */
  readonly deadlineMs?: number;
  readonly now?: () => number;
}

/** The remote end of a TCP connection, identified by address and port. A TLS socket and its underlying socket have the same values. */
export type Peer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

interface Unproven {
  readonly socket: Socket;
  readonly since: number;
  readonly timer: NodeJS.Timeout | undefined;
}

/**
 * Limits the open connections of a server. A connection is unproven until its peer is authorised or its request is being answered. At the
 * limit, the oldest unproven connection is closed in favour of a new one: idle connections cannot lock out active peers.
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

  /** Registers a new connection. Closes it immediately if the limit is reached and every other connection must stay open. */
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
      // The peer may reuse the port for a new connection before the close event of this connection arrives.
      if (this.#unproven.get(key)?.socket === socket) {
        this.#settle(key);
      }
    });
  }

  /** Marks a connection as proven. Call this when the peer is authorised, or when its request is being answered. */
  proven(peer: Peer): void {
    this.#settle(keyOf(peer));
  }

  /** Marks a connection as unproven after a response, until its next request. */
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
