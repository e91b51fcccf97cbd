import type { Socket } from 'node:net';
import { ERROR_CODES, type ErrorCode, TonyError } from '../../conf/errors.ts';
import { dialNeighbour, type Reader } from '../ring-connect.ts';
import type { Identity } from '../ring-handshake.ts';
import { encodeFrame, type Frame } from './frame.ts';
import { FrameReader } from './frame-reader.ts';
import { type Ask, refusal } from './messages.ts';

/** Of the answer to an ask. */
export interface Answer {
  readonly head: unknown;
  readonly body: Uint8Array;
}

export interface ConnectionOptions {
  readonly address: { readonly host: string; readonly port: number };
  readonly key: Uint8Array;
  readonly identity: Identity;
  /** Without a byte while an answer is due: the server is lost. */
  readonly silenceMs: number;
  readonly onLost: (cause: string) => void;
}

interface Pending {
  /** null: any length. */
  readonly bodyBytes: number | null;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: TonyError) => void;
}

/** What a body of unknown length may have at most: those of known lengths are the large ones. */
const MOST_UNKNOWN_BYTES = 2 ** 30;
const SILENT_TICKS = 8;

/** A worker's end of the connection to one parameter server. Once it is lost, nothing is answered any more. */
export class ServerConnection implements Reader {
  readonly #options: ConnectionOptions;
  readonly #reader: FrameReader;
  readonly #pending = new Map<number, Pending>();
  #socket: Socket | null = null;
  #nextId = 0;
  #silentTicks = 0;
  #watch: NodeJS.Timeout | null = null;
  #over = false;

  private constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#reader = new FrameReader({
      place: (frame) => this.#place(frame),
      complete: (frame, head, body) => this.#complete(frame, head, body),
      broken: (reason) => this.#lose(reason),
    });
  }

  /** Dials until the server answers and proves itself, or `signal` says that it is enough. */
  static async dial(options: ConnectionOptions, signal: AbortSignal, onRefused: (reason: string) => void): Promise<ServerConnection> {
    const connection = new ServerConnection(options);
    const { address, key, identity } = options;
    connection.#attach(await dialNeighbour(address, key, identity, connection, signal, onRefused));
    return connection;
  }

  /**
   * @param body written as it lies: not to be changed afterwards.
   * @param bodyBytes how long the answer's body has to be.
   * @returns the answer; its body is in memory of its own.
   */
  ask(head: Ask, body: readonly Uint8Array[] = [], bodyBytes: number | null = null): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      const id = this.#nextId;
      this.#nextId = (id + 1) >>> 0;
      this.#pending.set(id, { bodyBytes, resolve, reject });
      this.#hold();
      const socket = this.#socket;
      if (this.#over || socket === null) {
        return;
      }
      const bytes = body.reduce((sum, { length }) => sum + length, 0);
      socket.cork();
      socket.write(encodeFrame('ask', id, Buffer.from(JSON.stringify(head)), bytes));
      for (const part of body) {
        socket.write(part);
      }
      socket.uncork();
    });
  }

  /** Takes its leave, or, not `well`, breaks off. Synchronous, so that it works at exit. */
  close(well: boolean): void {
    this.#over = true;
    this.#reader.stop();
    this.#stopWatch();
    this.#socket?.unref();
    if (well) {
      this.#socket?.end(encodeFrame('bye', 0, new Uint8Array(0), 0));
    } else {
      this.#socket?.destroy();
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

  #attach(socket: Socket): void {
    this.#socket = socket;
    socket.unref();
    socket.on('error', () => {});
    socket.once('end', () => this.#lose('closed the connection'));
    socket.once('close', () => this.#lose('broke the connection'));
  }

  #place(frame: Frame): Uint8Array {
    const pending = this.#pending.get(frame.id);
    if (frame.kind !== 'answer' || pending === undefined || frame.bodyBytes > (pending.bodyBytes ?? MOST_UNKNOWN_BYTES)) {
      throw new Error(`sent ${frame.bodyBytes} bytes that nobody has asked for`);
    }
    // Fresh each time: backends keep what they are given until they need it, and some for ever.
    return Buffer.allocUnsafeSlow(frame.bodyBytes);
  }

  #complete(frame: Frame, head: unknown, body: Uint8Array): void {
    const pending = this.#pending.get(frame.id);
    if (pending === undefined) {
      throw new Error('answered what nobody has asked');
    }
    switch (frame.kind) {
      case 'held':
        return;
      case 'refusal':
        this.#pending.delete(frame.id);
        pending.reject(errorOf(head));
        break;
      case 'answer':
        if (pending.bodyBytes !== null && pending.bodyBytes !== body.length) {
          throw new Error(`answered with ${body.length} bytes instead of ${pending.bodyBytes}`);
        }
        this.#pending.delete(frame.id);
        pending.resolve({ head, body });
        break;
      case 'ask':
      case 'bye':
        throw new Error(`sent a frame of kind ${frame.kind}`);
    }
    if (this.#pending.size === 0) {
      this.#release();
    }
  }

  /** While something is asked the process lives, and the server may not be silent for long. */
  #hold(): void {
    if (this.#pending.size !== 1 || this.#over) {
      return;
    }
    this.#socket?.ref();
    this.#silentTicks = 0;
    // Ticks, not a clock: when this process was blocked for long, what came meanwhile is read before the next tick.
    this.#watch = setInterval(() => {
      this.#silentTicks++;
      if (this.#silentTicks >= SILENT_TICKS) {
        this.#lose(`was silent for ${this.#options.silenceMs / 1000} s`);
      }
    }, this.#options.silenceMs / SILENT_TICKS);
  }

  #release(): void {
    this.#stopWatch();
    this.#socket?.unref();
  }

  #stopWatch(): void {
    if (this.#watch !== null) {
      clearInterval(this.#watch);
      this.#watch = null;
    }
  }

  #lose(cause: string): void {
    if (!this.#over) {
      this.#over = true;
      this.#reader.stop();
      this.#stopWatch();
      this.#socket?.destroy();
      this.#options.onLost(cause);
    }
  }
}

function errorOf(head: unknown): TonyError {
  const parsed = refusal.safeParse(head);
  const { code, message } = parsed.success ? parsed.data : { code: '', message: 'the parameter server has refused it' };
  return new TonyError(code in ERROR_CODES ? (code as ErrorCode) : 'RING_MISMATCH', message);
}
