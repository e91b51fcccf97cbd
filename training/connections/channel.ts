import type { Socket } from 'node:net';
import type { WireSecurity } from '../../conf/job.ts';
import { TonyError } from '../../platform/errors.ts';
import { pushInto, type Reader } from './reader.ts';
import { RecordKey } from './record.ts';
import { RecordReader } from './record-reader.ts';
import { RecordWriter } from './record-writer.ts';

/** Why a connection was lost. WIRE_INTEGRITY: the peer's data was altered in transit; no other process can detect this. */
export type LossCode = 'PEER_LOST' | 'WIRE_INTEGRITY';

/** Returns why a connection was lost, based on an `error` event of the channel's socket. */
export function lossOf(error: NodeJS.ErrnoException): { readonly cause: string; readonly code: LossCode } {
  return error instanceof TonyError && error.code === 'WIRE_INTEGRITY'
    ? { cause: error.message, code: error.code }
    : { cause: `broke the connection (${error.code ?? error.message})`, code: 'PEER_LOST' };
}

/** A connection between two of the job's programs, after the handshake. */
export interface Channel {
  /**
   * Use the socket only for events and deadlines; only the channel reads and writes. If the received data differs from what the peer sent,
   * the socket is destroyed with a TonyError WIRE_INTEGRITY.
   */
  readonly socket: Socket;
  /** Sends `bytes`, which must not change until `onWritten` is called. */
  write(bytes: Uint8Array, onWritten?: () => void): void;
  /** Delays writes until `uncork`, so that small writes are sent together. */
  cork(): void;
  uncork(): void;
  /** Sends `bytes` after all earlier writes, then closes the sending direction. Synchronous, for use in exit handlers. */
  end(bytes: Uint8Array): void;
  /** Starts reading from an accepted connection. */
  read(reader: Reader): void;
  /** Resumes reading after the reader has paused. */
  resume(): void;
}

/** Carries bytes unchanged, for `wireSecurity: none`. */
class PlainChannel implements Channel {
  readonly socket: Socket;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  write(bytes: Uint8Array, onWritten?: () => void): void {
    this.socket.write(bytes, (error) => {
      if (!error) {
        onWritten?.();
      }
    });
  }

  cork(): void {
    this.socket.cork();
  }

  uncork(): void {
    this.socket.uncork();
  }

  end(bytes: Uint8Array): void {
    this.socket.end(bytes);
  }

  read(reader: Reader): void {
    this.socket.on('data', (chunk: Buffer) => pushInto(reader, chunk));
  }

  resume(): void {
    this.socket.resume();
  }
}

/** Carries records, for `wireSecurity: authenticated` or `encrypted`. */
class RecordChannel implements Channel {
  readonly socket: Socket;
  readonly #writer: RecordWriter;
  readonly #incoming: RecordKey;
  #reader: RecordReader | null = null;

  constructor(socket: Socket, outgoing: RecordKey, incoming: RecordKey) {
    this.socket = socket;
    this.#incoming = incoming;
    this.#writer = new RecordWriter(outgoing, socket);
  }

  write(bytes: Uint8Array, onWritten?: () => void): void {
    this.#writer.write(bytes, onWritten);
  }

  cork(): void {
    this.#writer.cork();
  }

  uncork(): void {
    this.#writer.uncork();
  }

  end(bytes: Uint8Array): void {
    this.#writer.write(bytes);
    this.#writer.flush();
    this.socket.end();
  }

  /** Returns a reader that verifies records and passes their plaintext to `reader`. */
  open(reader: Reader): Reader {
    this.#reader = new RecordReader(this.#incoming, reader, (cause) => this.socket.destroy(new TonyError('WIRE_INTEGRITY', cause)));
    return this.#reader;
  }

  read(reader: Reader): void {
    const records = this.open(reader);
    this.socket.on('data', (chunk: Buffer) => pushInto(records, chunk));
  }

  resume(): void {
    if (this.#reader?.resume()) {
      this.socket.resume();
    }
  }
}

/** What both ends know after the handshake. */
export interface Agreement {
  readonly key: Uint8Array;
  /** The frames of the handshake that both ends have authenticated. */
  readonly transcript: Uint8Array;
}

export function acceptedChannel(socket: Socket, security: WireSecurity, { key, transcript }: Agreement): Channel {
  if (security === 'none') {
    return new PlainChannel(socket);
  }
  const outgoing = new RecordKey(security, key, transcript, 'from acceptor');
  return new RecordChannel(socket, outgoing, new RecordKey(security, key, transcript, 'from dialer'));
}

/** @returns the channel, and the reader to which the socket must pass all data from now on. */
export function dialedChannel(
  socket: Socket,
  security: WireSecurity,
  { key, transcript }: Agreement,
  reader: Reader,
): { readonly channel: Channel; readonly raw: Reader } {
  if (security === 'none') {
    return { channel: new PlainChannel(socket), raw: reader };
  }
  const outgoing = new RecordKey(security, key, transcript, 'from dialer');
  const channel = new RecordChannel(socket, outgoing, new RecordKey(security, key, transcript, 'from acceptor'));
  return { channel, raw: channel.open(reader) };
}
