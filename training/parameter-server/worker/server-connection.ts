import type { Channel, LossCode } from '../../../contract/connections/channel.ts';
import { dialNeighbour } from '../../../contract/connections/connect.ts';
import type { Identity } from '../../../contract/connections/handshake.ts';
import type { Reader } from '../../../contract/connections/reader.ts';
import { ERROR_CODES, type ErrorCode, TonyError } from '../../../platform/errors.ts';
import { encodeFrame, type ServerFrame, sendFrame } from '../protocol/frame.ts';
import { ServerFrameReader } from '../protocol/frame-reader.ts';
import { refusal, type ServerAsk } from '../protocol/messages.ts';

export interface ServerAnswer {
  readonly head: unknown;
  readonly body: Uint8Array;
}

export interface ConnectionOptions {
  readonly address: { readonly host: string; readonly port: number };
  readonly key: Uint8Array;
  readonly identity: Identity;
  /** The time in ms without data after which a server with a pending request is considered lost. */
  readonly silenceMs: number;
  readonly onLost: (cause: string, code: LossCode) => void;
}

interface Pending {
  /** The maximum number of bytes in the answer's body. Null means MOST_UNKNOWN_BYTES. */
  readonly bodyBytes: number | null;
  readonly resolve: (answer: ServerAnswer) => void;
  readonly reject: (error: TonyError) => void;
}

/** The maximum number of bytes in an answer's body if the request does not determine its size. Such bodies are usually small. */
const MOST_UNKNOWN_BYTES = 2 ** 30;
const SILENT_TICKS = 8;

/**
 * A worker's connection to one parameter server. If the connection is lost, its pending requests never settle. ServerGroup rejects the
 * requests instead.
 */
export class ServerConnection implements Reader {
  readonly #options: ConnectionOptions;
  readonly #reader: ServerFrameReader;
  readonly #pending = new Map<number, Pending>();
  #channel: Channel | null = null;
  #nextId = 0;
  #silentTicks = 0;
  #watch: NodeJS.Timeout | null = null;
  #over = false;

  private constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#reader = new ServerFrameReader({
      place: (frame) => this.#place(frame),
      complete: (frame, head, body) => this.#complete(frame, head, body),
      broken: (reason) => this.#lose(reason),
    });
  }

  /** Tries to connect until the server has authenticated itself or `signal` is aborted. */
  static async dial(options: ConnectionOptions, signal: AbortSignal, onRefused: (reason: string) => void): Promise<ServerConnection> {
    const connection = new ServerConnection(options);
    const { address, key, identity } = options;
    connection.#attach(await dialNeighbour(address, key, identity, connection, signal, onRefused));
    return connection;
  }

  /**
   * Sends a request and resolves with the answer. The caller owns the memory that contains the answer's body.
   * @param body sent without being copied, so the bytes must not change.
   * @param bodyBytes the maximum number of bytes in the answer's body.
   */
  ask(head: ServerAsk, body: readonly Uint8Array[] = [], bodyBytes: number | null = null): Promise<ServerAnswer> {
    return new Promise<ServerAnswer>((resolve, reject) => {
      const id = this.#nextId;
      this.#nextId = (id + 1) >>> 0;
      this.#pending.set(id, { bodyBytes, resolve, reject });
      this.#watchServer();
      const channel = this.#channel;
      if (this.#over || channel === null) {
        return;
      }
      sendFrame(channel, 'ask', id, head, body);
    });
  }

  /** Closes the connection. If `announced` is true, sends `bye` first. Synchronous, for use in exit handlers. */
  close(announced: boolean): void {
    this.#over = true;
    this.#reader.stop();
    this.#stopWatch();
    this.#channel?.socket.unref();
    if (announced) {
      this.#channel?.end(encodeFrame('bye', 0, new Uint8Array(0), 0));
    } else {
      this.#channel?.socket.destroy();
    }
  }

  destination(): Uint8Array {
    return this.#reader.destination();
  }

  received(count: number): boolean {
    this.#silentTicks = 0;
    this.#reader.received(count);
    return true;
  }

  #attach(channel: Channel): void {
    this.#channel = channel;
    channel.socket.unref();
    channel.watch((cause, code) => this.#lose(cause, code));
  }

  #place(frame: ServerFrame): Uint8Array {
    const pending = this.#pending.get(frame.id);
    if (frame.kind !== 'answer' || pending === undefined || frame.bodyBytes > (pending.bodyBytes ?? MOST_UNKNOWN_BYTES)) {
      throw new Error(`sent ${frame.bodyBytes} bytes that no request expects`);
    }
    // Each answer needs new memory, because backends may keep a reference to the body.
    return Buffer.allocUnsafeSlow(frame.bodyBytes);
  }

  #complete(frame: ServerFrame, head: unknown, body: Uint8Array): void {
    const pending = this.#pending.get(frame.id);
    if (pending === undefined) {
      throw new Error('sent an answer without a request');
    }
    switch (frame.kind) {
      case 'held':
        return;
      case 'refusal':
        this.#pending.delete(frame.id);
        pending.reject(errorOf(head));
        break;
      case 'answer':
        this.#pending.delete(frame.id);
        pending.resolve({ head, body });
        break;
      case 'ask':
      case 'bye':
        throw new Error(`sent an unexpected frame of kind ${frame.kind}`);
    }
    if (this.#pending.size === 0) {
      this.#release();
    }
  }

  /** Detects a silent server, and keeps this process alive, while a request is pending. */
  #watchServer(): void {
    if (this.#pending.size !== 1 || this.#over) {
      return;
    }
    this.#channel?.socket.ref();
    this.#silentTicks = 0;
    // Counts timer ticks instead of elapsed time. If this process was blocked, the timer ticks only once before the process reads the data
    // that has arrived.
    this.#watch = setInterval(() => {
      this.#silentTicks++;
      if (this.#silentTicks >= SILENT_TICKS) {
        this.#lose(`was silent for ${this.#options.silenceMs / 1000} s`);
      }
    }, this.#options.silenceMs / SILENT_TICKS);
  }

  #release(): void {
    this.#stopWatch();
    this.#channel?.socket.unref();
  }

  #stopWatch(): void {
    if (this.#watch !== null) {
      clearInterval(this.#watch);
      this.#watch = null;
    }
  }

  #lose(cause: string, code: LossCode = 'PEER_LOST'): void {
    if (!this.#over) {
      this.#over = true;
      this.#reader.stop();
      this.#stopWatch();
      this.#channel?.socket.destroy();
      this.#options.onLost(cause, code);
    }
  }
}

function errorOf(head: unknown): TonyError {
  const parsed = refusal.safeParse(head);
  const { code, message } = parsed.success
    ? parsed.data
    : { code: '', message: 'the parameter server refused the request without a valid reason' };
  return new TonyError(code in ERROR_CODES ? (code as ErrorCode) : 'RING_MISMATCH', message);
}
