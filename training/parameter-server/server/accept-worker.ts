import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { TonyError } from '../../../platform/errors.ts';
import {
  encodeChallenge,
  HELLO_BYTES,
  type Identity,
  MAC_BYTES,
  macMatches,
  macOf,
  NONCE_BYTES,
  refusalOf,
  WELCOME,
} from '../../ring/ring-handshake.ts';

/** The time limit for the handshake of one connection. */
const HANDSHAKE_MS = 10_000;

export interface ServerIdentity {
  readonly generation: number;
  readonly worldSize: number;
  /** This parameter server's number. */
  readonly index: number;
}

/**
 * The server's side of the ring's handshake: any rank may dial and must prove its identity.
 * @returns the rank, and the bytes that have arrived after the handshake.
 * @throws TonyError RING_JOIN_FAILED; the caller must then destroy the socket.
 */
export function acceptWorker(socket: Socket, key: Uint8Array, server: ServerIdentity): Promise<{ rank: number; rest: Buffer }> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => settle('took too long'), HANDSHAKE_MS);
    let received = Buffer.alloc(0);
    let rank = 0;
    let expectedProof: Buffer | null = null;
    const settle = (refusal: string | null) => {
      clearTimeout(timer);
      socket.removeListener('data', onData).removeListener('close', onClose).removeListener('error', onClose);
      if (refusal === null) {
        resolve({ rank, rest: received.subarray(HELLO_BYTES + MAC_BYTES) });
      } else {
        // A connection reset by an unauthenticated client must not crash the process.
        socket.on('error', () => {});
        reject(new TonyError('RING_JOIN_FAILED', refusal));
      }
    };
    const onClose = () => settle('closed the connection');
    const onData = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (expectedProof === null && received.length > HELLO_BYTES + MAC_BYTES) {
        settle('sent more than a handshake');
        return;
      }
      if (expectedProof === null && received.length >= HELLO_BYTES) {
        const hello = received.subarray(0, HELLO_BYTES);
        // The offset of the sender's rank in a HELLO.
        rank = hello.readUInt32BE(16);
        const expected: Identity = { generation: server.generation, worldSize: server.worldSize, from: rank, to: server.index };
        const refusal = rank < server.worldSize ? refusalOf(hello, expected) : 'is of no rank';
        if (refusal !== null) {
          settle(refusal);
          return;
        }
        const reply: Identity = { ...expected, from: server.index, to: rank };
        const challenge = encodeChallenge(key, reply, randomBytes(NONCE_BYTES), hello);
        expectedProof = macOf(key, 'dialer', hello, challenge.subarray(0, HELLO_BYTES));
        socket.write(challenge);
      }
      if (expectedProof !== null && received.length >= HELLO_BYTES + MAC_BYTES) {
        if (!macMatches(received.subarray(HELLO_BYTES, HELLO_BYTES + MAC_BYTES), expectedProof)) {
          settle("does not know the job's key");
          return;
        }
        socket.write(WELCOME);
        settle(null);
      }
    };
    socket.on('data', onData).on('close', onClose).on('error', onClose);
  });
}
