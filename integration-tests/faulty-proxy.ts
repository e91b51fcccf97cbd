import { EventEmitter, once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** Direction of the data, from the perspective of the client that connects to the proxy. */
export type Direction = 'request' | 'answer';

interface Link {
  readonly client: Socket;
  readonly target: Socket;
}

/** A TCP proxy on loopback that can cut, hold and delay connections. */
export class FaultyProxy {
  readonly #server: Server;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #links = new Set<Link>();
  readonly #held = new Set<Direction>();
  readonly #restored = new EventEmitter<{ restored: [] }>().setMaxListeners(0);
  #refusing = false;
  #delayMs = 0;
  #accepted = 0;

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  static async open(target: { host: string; port: number }): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(target);
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get accepted(): number {
    return this.#accepted;
  }

  get open(): number {
    return this.#links.size;
  }

  /** Resets every connection. New connections are accepted. */
  cut(): void {
    for (const { client, target } of this.#links) {
      client.resetAndDestroy();
      target.resetAndDestroy();
    }
    this.#links.clear();
  }

  /** Resets every connection, and immediately resets each new connection. */
  refuse(): void {
    this.#refusing = true;
    this.cut();
  }

  /**
   * Keeps connections open without forwarding data, like a network that drops packets. `restore` forwards the held data; `cut` discards it.
   */
  hold(...directions: Direction[]): void {
    for (const direction of directions.length === 0 ? (['request', 'answer'] as const) : directions) {
      this.#held.add(direction);
    }
  }

  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  restore(): void {
    this.#refusing = false;
    this.#delayMs = 0;
    this.#held.clear();
    this.#restored.emit('restored');
  }

  async close(): Promise<void> {
    this.restore();
    this.refuse();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(client: Socket): void {
    this.#accepted += 1;
    if (this.#refusing) {
      client.resetAndDestroy();
      return;
    }
    const target = connect({ ...this.#target, allowHalfOpen: true });
    const link = { client, target };
    this.#links.add(link);
    for (const socket of [client, target]) {
      socket.setNoDelay(true);
      // `#carry` forwards a FIN after the last chunk; the `close` handler forwards a reset immediately.
      socket.on('error', () => {});
      socket.on('close', (reset) => {
        if (reset) {
          client.resetAndDestroy();
          target.resetAndDestroy();
        }
        if (client.destroyed && target.destroyed) {
          this.#links.delete(link);
        }
      });
    }
    void this.#carry(client, target, 'request');
    void this.#carry(target, client, 'answer');
  }

  async #carry(from: Socket, to: Socket, direction: Direction): Promise<void> {
    try {
      // Keeps the socket open after its input has ended, because the other direction may still transfer data.
      for await (const piece of from.iterator({ destroyOnReturn: false })) {
        if (this.#delayMs > 0) {
          await delay(this.#delayMs);
        }
        while (this.#held.has(direction)) {
          await once(this.#restored, 'restored');
        }
        if (!to.write(piece as Uint8Array)) {
          await new Promise((resolve) => to.once('drain', resolve).once('close', resolve));
        }
      }
      to.end();
    } catch {
      // `cut` has already destroyed both sockets.
    }
  }
}
