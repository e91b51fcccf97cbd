import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';

export interface ConnectionLimitOptions {
  readonly mostUnproven: number;
  /** Maximum total number of connections. The default is unlimited. */
  readonly most?: number;
  /**
   * Minimum age in ms at which a new connection may replace an unproven connection (see `ConnectionLimit`). The default is 0. If all
   * unproven connections are younger, the new connection is closed.
   */
  readonly graceMs?: number;
  /** Time in ms after which an unproven connection is closed. The default is unlimited. */
  readonly deadlineMs?: number;
  readonly now?: () => number;
}

/** Remote address and port of a TCP connection. They are the same for a TLS socket and its underlying socket. */
export type RemoteAddress = Pick<Socket, 'remoteAddress' | 'remotePort'>;

interface Unproven {
  readonly socket: Socket;
  readonly since: number;
  readonly timer: NodeJS.Timeout | undefined;
}

/**
 * Limits the number of open connections to a server. A connection counts as unproven until the server authorises the peer or answers its
 * request. At the limit, a new connection replaces the oldest unproven connection. Idle connections therefore cannot block active clients.
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

  /** Registers a new connection. If the limit is reached and no other connection may be closed, closes the new connection. */
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
      // The map may already contain a newer connection from the same address and port.
      if (this.#unproven.get(key)?.socket === socket) {
        this.#settle(key);
      }
    });
  }

  /** Marks a connection as proven. Called when the server has authorised the peer or answers its request. */
  proven(peer: RemoteAddress): void {
    this.#settle(keyOf(peer));
  }

  /** Marks a connection as unproven until its next request. Called after a response. */
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

function keyOf({ remoteAddress = '', remotePort = 0 }: RemoteAddress): string {
  return `${remoteAddress} ${remotePort}`;
}

/** Each server's connections use at most this fraction of the process's file descriptors. A process has up to four servers. */
const SHARE = 1 / 8;
let descriptors: number | null = null;

/** Returns `most`, or less if the process may open only few files. Otherwise, strangers' connections could use all file descriptors. */
export function withinDescriptors(most: number): number {
  descriptors ??= descriptorLimit(limitsOfProcess());
  return Math.max(1, Math.min(most, Math.floor(descriptors * SHARE)));
}

/** Returns the limit in the text of /proc/self/limits. Node.js raises the soft limit to the hard limit when it starts. */
export function descriptorLimit(text: string): number {
  const soft = /^Max open files +(\d+)/m.exec(text)?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

function limitsOfProcess(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}
