import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { Channel } from '../../connections/channel.ts';
import { type ServerFrame, type ServerFrameKind, sendFrame } from '../protocol/frame.ts';
import { ServerFrameReader } from '../protocol/frame-reader.ts';
import { ask, type ServerAsk } from '../protocol/messages.ts';
import type { ServerSession } from './session.ts';
import type { Client } from './worker-request.ts';

/** The server's side of the connection to one worker in one run. */
export class WorkerConnection implements Client {
  readonly rank: number;
  readonly #name: string;
  readonly #channel: Channel;
  readonly #sessionOf: (run: number) => ServerSession;
  readonly #reader: ServerFrameReader;
  #session: ServerSession | null = null;
  /** The request whose body is arriving. */
  #message: ServerAsk | null = null;
  /** The buffer for gradients. All pushes reuse it, because `handle` has finished with the gradients when it returns. */
  #gradients = new Uint8Array(0);
  #saidBye = false;

  constructor(channel: Channel, { rank, name }: { rank: number; name: string }, sessionOf: (run: number) => ServerSession) {
    this.rank = rank;
    this.#name = name;
    this.#channel = channel;
    this.#sessionOf = sessionOf;
    this.#reader = new ServerFrameReader({
      place: (frame, head) => this.#place(frame, head),
      complete: (frame, head, body) => this.#complete(frame, head, body),
      broken: (reason) => {
        process.stderr.write(`tony-ts: ${name} ${reason}\n`);
        channel.socket.destroy();
      },
    });
  }

  start(): void {
    const { socket } = this.#channel;
    socket.setNoDelay(true);
    let isReported = false;
    this.#channel.watch((cause, code) => {
      if (code === 'WIRE_INTEGRITY' && !isReported) {
        isReported = true;
        process.stderr.write(`tony-ts: ${code}: ${this.#name} ${cause}\n`);
      }
    });
    socket.once('close', () => {
      this.#reader.stop();
      this.#session?.detach(this, this.#saidBye);
    });
    this.#channel.read(this.#reader);
  }

  answer(id: number, head: object, body: readonly Uint8Array[] = []): void {
    this.#send('answer', id, head, body);
  }

  refuse(id: number, error: unknown): void {
    const { code, message } = error instanceof TonyError ? error : new TonyError('RING_MISMATCH', messageOf(error));
    this.#send('refusal', id, { code, message });
  }

  hold(id: number): void {
    this.#send('held', id, null);
  }

  #send(kind: ServerFrameKind, id: number, head: object | null, body: readonly Uint8Array[] = []): void {
    if (!this.#channel.socket.destroyed) {
      sendFrame(this.#channel, kind, id, head, body);
    }
  }

  #place(frame: ServerFrame, head: unknown): Uint8Array {
    const message = this.#understand(frame, head);
    const bytes = message === null ? 0 : (this.#session?.bodyBytes(message) ?? 0);
    if (bytes !== frame.bodyBytes) {
      throw new Error(`sent ${message?.ask ?? frame.kind} with ${frame.bodyBytes} bytes instead of ${bytes}`);
    }
    if (message?.ask !== 'push') {
      return new Uint8Array(bytes);
    }
    if (this.#gradients.length < bytes) {
      this.#gradients = new Uint8Array(bytes);
    }
    return this.#gradients.subarray(0, bytes);
  }

  #understand(frame: ServerFrame, head: unknown): ServerAsk | null {
    if (frame.kind !== 'ask') {
      return null;
    }
    this.#message ??= ask.parse(head);
    return this.#message;
  }

  #complete(frame: ServerFrame, head: unknown, body: Uint8Array): void {
    if (frame.kind === 'bye') {
      this.#saidBye = true;
      this.#channel.socket.end();
      return;
    }
    const message = this.#understand(frame, head);
    this.#message = null;
    if (message === null) {
      throw new Error(`sent an unexpected frame of kind ${frame.kind}`);
    }
    if (message.ask === 'hello' && this.#session === null) {
      try {
        this.#session = this.#sessionOf(message.run);
      } catch (error) {
        this.refuse(frame.id, error);
        return;
      }
      (this.#session.attach(this) as WorkerConnection | undefined)?.replaced();
    }
    const session = this.#session;
    if (session === null) {
      throw new Error(`sent ${message.ask} before hello`);
    }
    if (session.bodyBytes(message) !== frame.bodyBytes) {
      throw new Error(`sent ${message.ask} with ${frame.bodyBytes} bytes instead of ${session.bodyBytes(message)}`);
    }
    session.handle(this, frame.id, message, body).catch((error) => this.refuse(frame.id, error));
  }

  /** Closes this connection because another process has joined with the same rank. */
  replaced(): void {
    this.#reader.stop();
    this.#channel.socket.destroy();
  }
}
