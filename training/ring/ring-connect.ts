import { randomBytes } from 'node:crypto';
import { connect, type Server, type Socket } from 'node:net';
import { retry } from '../../platform/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { IncomingHandshakes } from './incoming-handshakes.ts';
import { takeHeld } from './listener.ts';
import {
  answerChallenge,
  CHALLENGE_BYTES,
  encodeHello,
  HANDSHAKE_MS,
  type Identity,
  KEEP_ALIVE_MS,
  NONCE_BYTES,
  WELCOME,
} from './ring-handshake.ts';

/** The maximum number of unauthenticated connections at the same time. */
const MAX_STRANGERS = 16;
const DIAL_BACKOFF = { firstMs: 20, mostMs: 1_000 };

/** Waits until the right neighbour connects and authenticates. Reports other connections to `onRefused`. The caller closes the server. */
export function acceptNeighbour(
  server: Server,
  key: Uint8Array,
  /** The identity that the dialer must prove. */
  expected: Identity,
  signal: AbortSignal,
  onRefused: (reason: string) => void,
): Promise<Socket> {
  return new Promise<Socket>((resolve, reject) => {
    const settle = () => {
      server.removeListener('connection', handshakes.greet);
      signal.removeEventListener('abort', onAbort);
      handshakes.close();
    };
    const handshakes = new IncomingHandshakes({
      ...{ key, expected, most: MAX_STRANGERS },
      onAccepted: (socket) => {
        settle();
        resolve(socket);
      },
      onRefused: (address, reason) => onRefused(`${address} ${reason}`),
    });
    const onAbort = () => {
      settle();
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort);
    server.on('connection', handshakes.greet);
    takeHeld(server).forEach(handshakes.greet);
  });
}

/** Receives the bytes of a dialled connection after the handshake. */
export interface Reader {
  /** The buffer for the next bytes; never empty. */
  destination(): Uint8Array;
  /** Called after `count` bytes were read into `destination()`. Returns false to pause reading until the socket is resumed. */
  received(count: number): boolean;
}

/** Dials the left neighbour with exponential backoff until the handshake succeeds or `signal` aborts. */
export async function dialNeighbour(
  address: { readonly host: string; readonly port: number },
  key: Uint8Array,
  /** The identity of this end. */
  identity: Identity,
  reader: Reader,
  signal: AbortSignal,
  onRefused: (reason: string) => void,
): Promise<Socket> {
  const onFailure = (error: unknown): void => onRefused(messageOf(error));
  return retry(() => dialOnce(address, key, identity, reader, signal), { ...DIAL_BACKOFF, jitter: true, signal, onFailure });
}

function dialOnce(
  address: { readonly host: string; readonly port: number },
  key: Uint8Array,
  identity: Identity,
  reader: Reader,
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise<Socket>((resolve, reject) => {
    const settle = (refusal: string | null) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.removeListener('close', onClose).removeListener('error', onError).removeListener('end', onClose);
      if (refusal === null) {
        current = reader;
        socket.setKeepAlive(true, KEEP_ALIVE_MS);
        resolve(socket);
      } else {
        socket.on('error', () => {});
        socket.destroy();
        reject(new TonyError('RING_JOIN_FAILED', `${address.host}:${address.port} ${refusal}`));
      }
    };
    const onAbort = () => settle('was given up');
    const onClose = () => settle('closed the connection during the handshake');
    const onError = (error: Error) => settle(`could not be reached (${messageOf(error)})`);
    const handshake = new DialerHandshake(key, identity, (proof) => socket.write(proof), settle);
    let current: Reader = handshake;
    const socket = connect({
      host: address.host,
      port: address.port,
      noDelay: true,
      // In the function form, Node.js calls `buffer` before each read.
      onread: { buffer: () => current.destination(), callback: (count) => current.received(count) },
    });
    const timer = setTimeout(() => settle('did not answer in time'), HANDSHAKE_MS);
    signal.addEventListener('abort', onAbort);
    socket.on('close', onClose).on('error', onError).on('end', onClose);
    socket.once('connect', () => socket.write(handshake.hello));
  });
}

/** The dialer's side of the handshake. Reads exactly one frame at a time, so that no data byte is read before its destination is known. */
class DialerHandshake implements Reader {
  readonly hello: Buffer;
  readonly #key: Uint8Array;
  readonly #expected: Identity;
  readonly #send: (proof: Buffer) => void;
  readonly #settle: (refusal: string | null) => void;
  #frame = Buffer.alloc(CHALLENGE_BYTES);
  #filled = 0;

  /** @param settle receives why the peer is refused; null if it has accepted this end. */
  constructor(key: Uint8Array, identity: Identity, send: (proof: Buffer) => void, settle: (refusal: string | null) => void) {
    this.hello = encodeHello(identity, randomBytes(NONCE_BYTES));
    this.#key = key;
    this.#expected = { ...identity, from: identity.to, to: identity.from };
    this.#send = send;
    this.#settle = settle;
  }

  destination(): Uint8Array {
    return this.#filled < this.#frame.length ? this.#frame.subarray(this.#filled) : Buffer.alloc(1);
  }

  received(count: number): boolean {
    this.#filled += count;
    if (this.#filled === this.#frame.length) {
      this.#complete();
    }
    return true;
  }

  #complete(): void {
    if (this.#frame.length !== CHALLENGE_BYTES) {
      this.#settle(this.#frame.equals(WELCOME) ? null : 'ended the handshake in an unknown way');
      return;
    }
    const answer = answerChallenge(this.#key, this.#frame, this.#expected, this.hello);
    if ('refusal' in answer) {
      this.#settle(answer.refusal);
      return;
    }
    this.#send(answer.proof);
    this.#frame = Buffer.alloc(WELCOME.length);
    this.#filled = 0;
  }
}
