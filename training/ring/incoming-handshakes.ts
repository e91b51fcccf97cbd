import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { messageOf, TonyError } from '../../platform/errors.ts';
import {
  type ExpectedDialer,
  encodeChallenge,
  HANDSHAKE_MS,
  HELLO_BYTES,
  KEEP_ALIVE_MS,
  MAC_BYTES,
  macMatches,
  macOf,
  NONCE_BYTES,
  refusalOf,
  senderOf,
  WELCOME,
} from './ring-handshake.ts';

export interface IncomingOptions {
  readonly key: Uint8Array;
  /** The identity that a dialer must prove. */
  readonly expected: ExpectedDialer;
  /** The maximum number of handshakes at the same time. */
  readonly most: number;
  /** Receives an authenticated connection. Must listen for its data before the next event. */
  readonly onAccepted: (socket: Socket, rank: number) => void;
  readonly onRefused: (address: string, reason: string) => void;
}

/** The acceptor's side of the handshakes on a listening server. Destroys connections that do not authenticate. */
export class IncomingHandshakes {
  readonly #options: IncomingOptions;
  readonly #strangers = new Set<Socket>();

  constructor(options: IncomingOptions) {
    this.#options = options;
  }

  readonly greet = (socket: Socket): void => {
    const { key, expected, most, onAccepted, onRefused } = this.#options;
    if (this.#strangers.size >= most) {
      // Drops the oldest handshake: a real peer completes it within milliseconds.
      const [slowest] = this.#strangers;
      slowest?.destroy();
    }
    this.#strangers.add(socket);
    const address = socket.remoteAddress ?? 'a stranger';
    authenticate(socket, key, expected).then(
      (rank) => {
        this.#strangers.delete(socket);
        onAccepted(socket, rank);
      },
      (error) => {
        this.#strangers.delete(socket);
        socket.destroy();
        onRefused(address, messageOf(error));
      },
    );
  };

  /** Destroys the connections in their handshake. */
  close(): void {
    for (const stranger of this.#strangers) {
      stranger.destroy();
    }
  }
}

/** @returns the dialer's rank. */
function authenticate(socket: Socket, key: Uint8Array, expected: ExpectedDialer): Promise<number> {
  return new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => settle('took too long'), HANDSHAKE_MS);
    let received = Buffer.alloc(0);
    let rank = 0;
    let proof: Buffer | null = null;
    const settle = (refusal: string | null) => {
      clearTimeout(timer);
      socket.removeListener('data', onData).removeListener('close', onClose).removeListener('error', onClose);
      if (refusal === null) {
        resolve(rank);
      } else {
        // A connection reset by the rejected peer must not crash the process.
        socket.on('error', () => {});
        reject(new TonyError('RING_JOIN_FAILED', refusal));
      }
    };
    const onClose = () => settle('closed the connection');
    const onData = (chunk: Buffer) => {
      if (received.length + chunk.length > HELLO_BYTES + MAC_BYTES) {
        settle('sent more than a handshake');
        return;
      }
      received = Buffer.concat([received, chunk]);
      if (proof === null && received.length >= HELLO_BYTES) {
        const hello = received.subarray(0, HELLO_BYTES);
        const refusal = refusalOf(hello, expected);
        if (refusal !== null) {
          settle(refusal);
          return;
        }
        rank = senderOf(hello);
        const challenge = encodeChallenge(key, { ...expected, from: expected.to, to: rank }, randomBytes(NONCE_BYTES), hello);
        proof = macOf(key, 'dialer', hello, challenge.subarray(0, HELLO_BYTES));
        socket.write(challenge);
      }
      if (proof !== null && received.length === HELLO_BYTES + MAC_BYTES) {
        if (!macMatches(received.subarray(HELLO_BYTES), proof)) {
          settle("does not know the ring's key");
          return;
        }
        socket.setKeepAlive(true, KEEP_ALIVE_MS);
        socket.write(WELCOME);
        settle(null);
      }
    };
    socket.on('data', onData).on('close', onClose).on('error', onClose);
  });
}
