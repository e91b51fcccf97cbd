import type { Socket } from 'node:net';
import type { WireSecurity } from '../../conf/job.ts';
import { pushInto, type Reader } from './reader.ts';
import { RecordKey } from './record.ts';
import { type Detector, RecordReader } from './record-reader.ts';
import { RecordWriter } from './record-writer.ts';

/** The time in ms that an end waits after an alert for its peer to close the connection. */
const ALERT_MS = 1_000;

/** Why a connection was lost. WIRE_INTEGRITY: data was altered in transit; only the two ends of the connection know this. */
export type LossCode = 'PEER_LOST' | 'WIRE_INTEGRITY';

export type OnLost = (cause: string, code: LossCode) => void;

/** A connection between two of the job's programs, after the handshake. */
export interface Channel {
  /** Use the socket only for deadlines and its `close` event; only the channel reads and writes. */
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
  /**
   * Calls `onLost` when the connection ends, possibly more than once; only the first cause counts. WIRE_INTEGRITY: the data that one end
   * received differs from what the other end sent. Both ends report it.
   */
  watch(onLost: OnLost): void;
  /** Why this end refuses the data of the peer (WIRE_INTEGRITY). `watch` reports it when the peer has received an alert. Null by default. */
  readonly refusal: string | null;
}

function watchSocket(socket: Socket, onLost: OnLost): void {
  socket.on('error', (error: NodeJS.ErrnoException) => onLost(`broke the connection (${error.code ?? error.message})`, 'PEER_LOST'));
  socket.on('end', () => onLost('closed the connection', 'PEER_LOST'));
  socket.on('close', () => onLost('closed the connection', 'PEER_LOST'));
}

/** Carries bytes unchanged, for `wireSecurity: none`. */
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

/** Carries records, for `wireSecurity: authenticated` or `encrypted`. */
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

  /** Returns a reader that verifies records and passes their plaintext to `reader`. */
  open(reader: Reader): Reader {
    this.#reader = new RecordReader(this.#incoming, reader, (cause, detectedBy) => this.#refuse(cause, detectedBy));
    return this.#reader;
  }

  /**
   * Closes the connection. If this end has detected the invalid data, first sends an alert, and discards all data until the peer has closed
   * the connection: closing it now would reset it, and the peer could lose the alert.
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
