import type { Readable, Writable } from 'node:stream';
import type { ServiceError, status } from '@grpc/grpc-js';
import type { ClientStream, ServerStream } from './services.ts';
import { MAXIMUM_DATA_BYTES } from './session-protocol.ts';
import type { TonyEnums, TonyMessages } from './tony-messages.ts';

type Stream = ClientStream<'SessionMessage', 'SessionMessage'> | ServerStream<'SessionMessage', 'SessionMessage'>;
type Received = TonyMessages['SessionMessage'];

/** How long to wait, in ms, for the other end to close its side of the stream. */
const CLOSE_MS = 5_000;

/**
 * One end of a session. The stream buffers at most one message in each direction. `send` resolves when the message has been sent. The next
 * message is received only after the previous message has been processed, so a slow reader slows down the writer at the other end.
 */
export class SessionStream {
  readonly #stream: Stream;
  #isClosed = false;
  readonly #sending = new Set<() => void>();
  #closeWith: (error: ServiceError | null) => void = () => {};
  /** Resolves when the stream has ended for any reason. The value is the error, or null if there was none. */
  readonly closed: Promise<ServiceError | null>;

  constructor(stream: Stream) {
    this.#stream = stream;
    this.closed = new Promise((resolve) => {
      this.#closeWith = resolve;
    });
    const ended = (error: ServiceError | null): void => {
      this.#isClosed = true;
      this.#closeWith(error);
      for (const resolve of this.#sending) {
        resolve();
      }
      this.#sending.clear();
    };
    stream.on('end', () => ended(null));
    stream.on('error', ended);
    stream.on('cancelled', () => ended(null));
    stream.on('close', () => ended(null));
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether a message is still being sent. */
  get isSending(): boolean {
    return this.#sending.size > 0;
  }

  /** Receives only the first message. Returns null if the stream closes before a message arrives. */
  async first(): Promise<Received | null> {
    const received = new Promise<Received>((resolve) => {
      this.#stream.once('data', (message: Received) => {
        this.#stream.pause();
        resolve(message);
      });
    });
    return await Promise.race([received, this.closed.then(() => null)]);
  }

  /** Starts to receive messages. Closes the stream if `receive` throws. */
  receive(receive: (message: Received) => void | Promise<void>): void {
    this.#stream.on('data', async (message: Received) => {
      this.#stream.pause();
      try {
        await receive(message);
        this.#stream.resume();
      } catch {
        this.close();
      }
    });
    // Resume the stream, because `first` has paused it.
    this.#stream.resume();
  }

  /** Resolves when the message has been sent or the stream has closed. */
  async send(message: TonyMessages['SessionMessage']): Promise<void> {
    if (this.#isClosed) {
      return;
    }
    await new Promise<void>((resolve) => {
      // `Promise.race` with `closed` would keep every promise in memory until the stream ends.
      this.#sending.add(resolve);
      this.#stream.write(message, () => {
        this.#sending.delete(resolve);
        resolve();
      });
    });
  }

  /** Sends the bytes from `source` until it ends or fails. Then sends an end-of-data message. */
  async sendAll(channel: TonyEnums['Channel'], source: Readable): Promise<void> {
    try {
      for await (const chunk of source as AsyncIterable<Buffer>) {
        for (let from = 0; from < chunk.length && !this.#isClosed; from += MAXIMUM_DATA_BYTES) {
          await this.send({ data: { channel, bytes: chunk.subarray(from, from + MAXIMUM_DATA_BYTES) } });
        }
        if (this.#isClosed) {
          return;
        }
      }
    } catch {
      // If the source fails, this counts as the end of its data.
    }
    await this.send({ endOfData: { channel } });
  }

  /** Ends a client's stream with an error. Only for the server. */
  refuse(code: status, details: string): void {
    this.#stream.emit('error', { code, details });
  }

  /** Closes this end. Messages that have already been sent still arrive. */
  close(): void {
    const stream = this.#stream;
    stream.end();
    if ('cancel' in stream) {
      const cancel = setTimeout(() => stream.cancel(), CLOSE_MS);
      cancel.unref();
      void this.closed.then(() => clearTimeout(cancel));
    }
  }
}

/** Resolves when the target accepts more data or has closed. */
export async function writeTo(target: Writable, bytes: Uint8Array): Promise<void> {
  if (target.destroyed || target.writableEnded || target.write(bytes)) {
    return;
  }
  await new Promise<void>((resolve) => {
    const done = (): void => {
      target.off('drain', done);
      target.off('close', done);
      resolve();
    };
    target.on('drain', done).on('close', done);
  });
}
