import type { Socket } from 'node:net';
import type { WireSecurity } from '../../conf/job.ts';
import { pushInto, type Reader } from './reader.ts';
import { RecordKey } from './record.ts';
import { type Detector, RecordReader } from './record-reader.ts';
import { RecordWriter } from './record-writer.ts';

/** How long, in ms, the sender of an alert waits for its peer to close the connection. */
const ALERT_MS = 1_000;

/** Why a connection was lost. WIRE_INTEGRITY means that the data was altered in transit. */
export type LossCode = 'PEER_LOST' | 'WIRE_INTEGRITY';

export type OnLost = (cause: string, code: LossCode) => void;

/** An authenticated connection between two of the job's programs. */
export interface Channel {
  /** The connection's socket. Only the channel may read from it or write to it. */
  readonly socket: Socket;
  /** Sends `bytes`. The caller must not change `bytes` before `onWritten` is called. */
  write(bytes: Uint8Array, onWritten?: () => void): void;
  /** Delays writes until `uncork`, so that the socket sends small writes together. */
  cork(): void;
  uncork(): void;
  /** Sends `bytes` after all earlier writes, then closes this direction of the connection. Never waits, so an exit handler can call it. */
  end(bytes: Uint8Array): void;
  /** Starts reading from an accepted connection. */
  read(reader: Reader): void;
  /** Resumes reading after the reader has paused the connection. */
  resume(): void;
  /**
   * Calls `onLost` when the connection ends. The callback may be called more than once; only the first call has the actual cause. Both ends
   * get WIRE_INTEGRITY if one end received data that the other end did not send.
   */
  watch(onLost: OnLost): void;
  /** Reason why this end has rejected the peer's data, or null if it has not rejected any. */
  readonly refusal: string | null;
}

function watchSocket(socket: Socket, onLost: OnLost): void {
  socket.on('error', (error: NodeJS.ErrnoException) => onLost(`broke the connection (${error.code ?? error.message})`, 'PEER_LOST'));
  socket.on('end', () => onLost('closed the connection', 'PEER_LOST'));
  socket.on('close', () => onLost('closed the connection', 'PEER_LOST'));
}

/** Sends bytes unchanged, for `wireSecurity: none`. */
class PlainChannel implements Channel {
  readonly socket: Socket;
  readonly refusal = null;

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

  watch(onLost: OnLost): void {
    watchSocket(this.socket, onLost);
  }
}

/** Sends bytes in records, for `wireSecurity: authenticated` and `encrypted`. */
class RecordChannel implements Channel {
  readonly socket: Socket;
  readonly #writer: RecordWriter;
  readonly #incoming: RecordKey;
  #reader: RecordReader | null = null;
  #refusal: string | null = null;

  constructor(socket: Socket, outgoing: RecordKey, incoming: RecordKey) {
    this.socket = socket;
    this.#incoming = incoming;
    this.#writer = new RecordWriter(outgoing, socket);
  }

  get refusal(): string | null {
    return this.#refusal;
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

  /**
   * Returns a reader that verifies records and passes their plaintext to `reader`. The connection must pass its data to the returned
   * reader.
   */
  open(reader: Reader): Reader {
    this.#reader = new RecordReader(this.#incoming, reader, (cause, detectedBy) => this.#refuse(cause, detectedBy));
    return this.#reader;
  }

  /**
   * Closes the connection after invalid data. If this end has detected the invalid data, it first sends an alert. It then reads and
   * discards data until the peer closes the connection, because an immediate close would reset the connection, and the alert could be lost.
   */
  #refuse(cause: string, detectedBy: Detector): void {
    this.#refusal = cause;
    if (detectedBy === 'peer') {
      this.socket.destroy();
      return;
    }
    this.#writer.alert();
    const timer = setTimeout(() => this.socket.destroy(), ALERT_MS);
    this.socket.once('close', () => clearTimeout(timer));
    this.socket.resume();
  }

  watch(onLost: OnLost): void {
    watchSocket(this.socket, (cause, code) => (this.#refusal === null ? onLost(cause, code) : onLost(this.#refusal, 'WIRE_INTEGRITY')));
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

/** Values shared by both ends after the handshake. */
export interface Agreement {
  readonly key: Uint8Array;
  /** Handshake frames authenticated by both ends. */
  readonly transcript: Uint8Array;
}

export function acceptedChannel(socket: Socket, security: WireSecurity, { key, transcript }: Agreement): Channel {
  if (security === 'none') {
    return new PlainChannel(socket);
  }
  const outgoing = new RecordKey(security, key, transcript, 'from acceptor');
  return new RecordChannel(socket, outgoing, new RecordKey(security, key, transcript, 'from dialer'));
}

/** @returns the channel, and the reader to which the socket must pass all further data. */
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
