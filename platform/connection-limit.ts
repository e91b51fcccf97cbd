import type { Socket } from 'node:net';

export interface ConnectionLimitOptions {
  /** Maximum number of unproven connections. */
  readonly mostUnproven: number;
  /** Maximum number of all connections; unlimited by default. */
  readonly most?: number;
  /**
   * An unproven connection younger than this (ms) is not closed in favour of a new one, because it may be about to prove itself. If all are
   * younger, the new connection is closed. Default 0.
   */
  readonly graceMs?: number;
  /** An unproven connection is closed after this time (ms); no deadline by default. */
  readonly deadlineMs?: number;
  readonly now?: () => number;
}

/** One end of a TCP connection, identified by address and port. A TLS socket and its underlying socket have the same values. */
export type Peer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

interface Unproven {
  readonly socket: Socket;
  readonly since: number;
  readonly timer: NodeJS.Timeout | undefined;
}

/**
 * Protects the file descriptors of a server: at the limit, the oldest unproven connection is closed in favour of a new one. Idle
 * connections therefore cannot lock out active peers.
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

  /** Registers a new connection, and may close it at once. */
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

  /** Call when the peer is authorised, or when its request is being answered: the connection then counts as proven. */
  proven(peer: Peer): void {
    this.#settle(keyOf(peer));
  }

  /** After its response, an admitted connection counts as unproven until the next request. */
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
