import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { sameSecret } from '../../platform/same-secret.ts';
import { acceptedChannel, type Channel } from './channel.ts';
import {
  type ExpectedDialer,
  encodeChallenge,
  HANDSHAKE_MS,
  HELLO_BYTES,
  KEEP_ALIVE_MS,
  MAC_BYTES,
  macOf,
  NONCE_BYTES,
  refusalOf,
  senderOf,
  WELCOME,
} from './handshake.ts';

export interface IncomingOptions {
  readonly key: Uint8Array;
  readonly expected: ExpectedDialer;
  /** Maximum number of concurrent handshakes. */
  readonly most: number;
  /** Called with each authenticated connection. The callback must call the channel's `read` before it returns, or data is lost. */
  readonly onAccepted: (channel: Channel, rank: number) => void;
  readonly onRefused: (address: string, reason: string) => void;
}

/**
 * Performs the acceptor's side of the handshake (see handshake.ts) on a server's incoming connections. Destroys connections that fail to
 * authenticate.
 */
export class IncomingHandshakes {
  readonly #options: IncomingOptions;
  readonly #unauthenticated = new Set<Socket>();

  constructor(options: IncomingOptions) {
    this.#options = options;
  }

  readonly accept = (socket: Socket): void => {
    const { key, expected, most, onAccepted, onRefused } = this.#options;
    if (this.#unauthenticated.size >= most) {
      // A rank completes its handshake within milliseconds, so the oldest connection is probably not from a rank.
      const [slowest] = this.#unauthenticated;
      slowest?.destroy();
    }
    this.#unauthenticated.add(socket);
    // Without an error listener, an error on a rejected connection would crash the process.
    socket.on('error', () => {});
    const address = socket.remoteAddress ?? 'an unknown address';
    accept(socket, key, expected).then(
      ({ rank, channel }) => {
        this.#unauthenticated.delete(socket);
        onAccepted(channel, rank);
      },
      (error) => {
        this.#unauthenticated.delete(socket);
        socket.destroy();
        onRefused(address, messageOf(error));
      },
    );
  };

  /** Destroys all connections that have not completed their handshake. */
  close(): void {
    for (const socket of this.#unauthenticated) {
      socket.destroy();
    }
  }
}

async function accept(socket: Socket, key: Uint8Array, expected: ExpectedDialer): Promise<{ rank: number; channel: Channel }> {
  const { rank, transcript } = await authenticate(socket, key, expected);
  return { rank, channel: await acceptedChannel(socket, expected.security, { key, transcript }) };
}

interface Authenticated {
  readonly rank: number;
  /** Handshake frames authenticated by both ends. */
  readonly transcript: Buffer;
}

function authenticate(socket: Socket, key: Uint8Array, expected: ExpectedDialer): Promise<Authenticated> {
  return new Promise<Authenticated>((resolve, reject) => {
    const timer = setTimeout(() => settle('took too long to authenticate'), HANDSHAKE_MS);
    let received = Buffer.alloc(0);
    let rank = 0;
    let transcript = Buffer.alloc(0);
    let proof: Buffer | null = null;
    const settle = (refusal: string | null) => {
      clearTimeout(timer);
      socket.removeListener('data', onData).removeListener('close', onClose).removeListener('error', onClose);
      if (refusal === null) {
        resolve({ rank, transcript });
      } else {
        reject(new TonyError('RING_JOIN_FAILED', refusal));
      }
    };
    const onClose = () => settle('closed the connection during the handshake');
    const onData = (chunk: Buffer) => {
      if (received.length + chunk.length > HELLO_BYTES + MAC_BYTES) {
        settle('sent more data than a handshake contains');
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
        transcript = Buffer.concat([hello, challenge.subarray(0, HELLO_BYTES)]);
        socket.write(challenge);
      }
      if (proof !== null && received.length === HELLO_BYTES + MAC_BYTES) {
        if (!sameSecret(received.subarray(HELLO_BYTES), proof)) {
          settle('has a different ring key');
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
