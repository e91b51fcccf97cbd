import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { WireSecurity } from '../../conf/job.ts';
import { type Agreement, deriveKey } from './handshake.ts';
import { PacedWriter, type PacedWriterOptions } from './paced-writer.ts';
import { acceptTls, dialTls } from './psk-tls.ts';
import { pushUntilPaused, type Reader } from './reader.ts';
import { type Direction, MAX_BODY_BYTES, RecordKey } from './record.ts';
import { type Detector, RecordReader } from './record-reader.ts';

/** How long, in ms, the sender of an alert waits for its peer to close the connection. */
const ALERT_MS = 1_000;
/** Maximum length of a write to TLS, which encrypts a write at once and in memory. */
const TLS_WRITE_BYTES = 256 * 1024;
const TLS_KEY_BYTES = 32;

/** Why a connection was lost. WIRE_INVALID means that the data was altered in transit. */
export type LossCode = 'PEER_LOST' | 'WIRE_INVALID';

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
   * get WIRE_INVALID if one end received data that the other end did not send.
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

/** Sends bytes unchanged, for `wire.security: none`. */
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
    passData(this.socket, reader);
  }

  resume(): void {
    this.socket.resume();
  }

  watch(onLost: OnLost): void {
    watchSocket(this.socket, onLost);
  }
}

/** Sends bytes in protected pieces. */
abstract class ProtectedChannel<S extends Socket> implements Channel {
  readonly socket: S;
  protected readonly writer: PacedWriter;
  #refusal: string | null = null;

  constructor(socket: S, writer: PacedWriterOptions) {
    this.socket = socket;
    this.writer = new PacedWriter(socket, writer);
  }

  abstract read(reader: Reader): void;
  abstract resume(): void;

  get refusal(): string | null {
    return this.#refusal;
  }

  /** Records that an end has detected invalid data. */
  protected refuse(detectedBy: Detector): void {
    this.#refusal ??= `${detectedBy === 'peer' ? 'received' : 'sent'} data that was modified, replayed, removed or injected on the network`;
  }

  write(bytes: Uint8Array, onWritten?: () => void): void {
    this.writer.write(bytes, onWritten);
  }

  cork(): void {
    this.writer.cork();
  }

  uncork(): void {
    this.writer.uncork();
  }

  end(bytes: Uint8Array): void {
    this.writer.write(bytes);
    this.writer.flush();
    this.socket.end();
  }

  watch(onLost: OnLost): void {
    watchSocket(this.socket, (cause, code) => (this.#refusal === null ? onLost(cause, code) : onLost(this.#refusal, 'WIRE_INVALID')));
  }
}

/** Sends bytes in records, for `wire.security: authenticated`. */
class RecordChannel extends ProtectedChannel<Socket> {
  readonly #outgoing: RecordKey;
  readonly #incoming: RecordKey;
  #reader: RecordReader | null = null;

  constructor(socket: Socket, agreement: Agreement, directions: { readonly outgoing: Direction; readonly incoming: Direction }) {
    const outgoing = new RecordKey(agreement, directions.outgoing);
    super(socket, {
      most: MAX_BODY_BYTES,
      put: (bodies, onWritten) => {
        socket.write(outgoing.seal(bodies));
        writeAll(socket, bodies, onWritten);
      },
    });
    this.#outgoing = outgoing;
    this.#incoming = new RecordKey(agreement, directions.incoming);
  }

  /**
   * Returns a reader that verifies records and passes their bodies to `reader`. The connection must pass its data to the returned reader.
   */
  open(reader: Reader): Reader {
    this.#reader = new RecordReader(this.#incoming, reader, (detectedBy) => this.#close(detectedBy));
    return this.#reader;
  }

  /**
   * Closes the connection after invalid data. If this end has detected the invalid data, it first sends an alert. It then reads and
   * discards data until the peer closes the connection, because an immediate close would reset the connection, and the alert could be lost.
   */
  #close(detectedBy: Detector): void {
    this.refuse(detectedBy);
    if (detectedBy === 'peer') {
      this.socket.destroy();
      return;
    }
    this.writer.stop();
    this.socket.write(this.#outgoing.seal([]));
    const timer = setTimeout(() => this.socket.destroy(), ALERT_MS);
    this.socket.once('close', () => clearTimeout(timer));
    this.socket.resume();
  }

  override read(reader: Reader): void {
    passData(this.socket, this.open(reader));
  }

  override resume(): void {
    if (this.#reader?.resume()) {
      this.socket.resume();
    }
  }
}

/** Sends bytes through TLS, for `wire.security: encrypted`. */
class TlsChannel extends ProtectedChannel<TLSSocket> {
  constructor(socket: TLSSocket) {
    super(socket, { most: TLS_WRITE_BYTES, put: (bodies, onWritten) => writeAll(socket, bodies, onWritten) });
    socket.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      // Only OpenSSL's errors have such codes. If the network fails, the code is, for example, ECONNRESET.
      if (code.startsWith('ERR_SSL_')) {
        this.refuse(code.includes('_ALERT_') ? 'peer' : 'this end');
      }
    });
  }

  override read(reader: Reader): void {
    passData(this.socket, reader);
  }

  override resume(): void {
    this.socket.resume();
  }
}

/** Passes a socket's data to `reader`, and pauses the socket while the reader is paused. */
function passData(socket: Socket, reader: Reader): void {
  socket.on('data', (chunk: Buffer) => {
    const rest = pushUntilPaused(reader, chunk);
    if (rest !== null) {
      socket.pause();
      socket.unshift(rest);
    }
  });
}

function writeAll(socket: Socket, bodies: readonly Uint8Array[], onWritten: (error?: Error | null) => void): void {
  bodies.forEach((each, index) => {
    socket.write(each, index < bodies.length - 1 ? undefined : onWritten);
  });
}

export async function acceptedChannel(socket: Socket, security: WireSecurity, agreement: Agreement): Promise<Channel> {
  switch (security) {
    case 'none':
      return new PlainChannel(socket);
    case 'authenticated':
      return new RecordChannel(socket, agreement, { outgoing: 'from acceptor', incoming: 'from dialer' });
    case 'encrypted':
      return new TlsChannel(await acceptTls(socket, tlsKey(agreement)));
  }
}

/** @returns the channel, and the reader to which the socket must pass all further data. */
export function dialedChannel(
  socket: Socket,
  security: Exclude<WireSecurity, 'encrypted'>,
  agreement: Agreement,
  reader: Reader,
): { readonly channel: Channel; readonly raw: Reader } {
  if (security === 'none') {
    return { channel: new PlainChannel(socket), raw: reader };
  }
  const channel = new RecordChannel(socket, agreement, { outgoing: 'from dialer', incoming: 'from acceptor' });
  return { channel, raw: channel.open(reader) };
}

/** Starts TLS on a dialed connection. The channel reads from the connection. */
export async function dialedTlsChannel(socket: Socket, agreement: Agreement, reader: Reader): Promise<Channel> {
  const channel = new TlsChannel(await dialTls(socket, tlsKey(agreement)));
  channel.read(reader);
  return channel;
}

function tlsKey(agreement: Agreement): Buffer {
  return deriveKey(agreement, 'encrypted', TLS_KEY_BYTES);
}
