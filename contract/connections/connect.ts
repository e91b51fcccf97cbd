import { randomBytes } from 'node:crypto';
import { connect, type Server } from 'node:net';
import { retry } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type Channel, dialedChannel, dialedTlsChannel } from './channel.ts';
import {
  answerChallenge,
  CHALLENGE_BYTES,
  encodeHello,
  HANDSHAKE_MS,
  type Identity,
  KEEP_ALIVE_MS,
  NONCE_BYTES,
  WELCOME,
} from './handshake.ts';
import { IncomingHandshakes } from './incoming-handshakes.ts';
import { takeHeld } from './listener.ts';
import type { Reader } from './reader.ts';

const MAX_UNAUTHENTICATED = 16;
const DIAL_BACKOFF = { firstMs: 20, mostMs: 1_000 };

/**
 * Waits until the neighbour on the right connects and authenticates. Calls `onRefused` with the reason for each rejected connection. Does
 * not close the server.
 */
export function acceptNeighbour(
  server: Server,
  key: Uint8Array,
  expected: Identity,
  signal: AbortSignal,
  onRefused: (reason: string) => void,
): Promise<Channel> {
  return new Promise<Channel>((resolve, reject) => {
    const settle = () => {
      server.removeListener('connection', handshakes.accept);
      signal.removeEventListener('abort', onAbort);
      handshakes.close();
    };
    const handshakes = new IncomingHandshakes({
      ...{ key, expected, most: MAX_UNAUTHENTICATED },
      onAccepted: (channel) => {
        settle();
        resolve(channel);
      },
      onRefused: (address, reason) => onRefused(`${address} ${reason}`),
    });
    const onAbort = () => {
      settle();
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort);
    server.on('connection', handshakes.accept);
    takeHeld(server).forEach(handshakes.accept);
  });
}

/** Connects to the neighbour on the left. Retries with exponential backoff until a handshake succeeds or `signal` aborts. */
export async function dialNeighbour(
  address: { readonly host: string; readonly port: number },
  key: Uint8Array,
  identity: Identity,
  reader: Reader,
  signal: AbortSignal,
  onRefused: (reason: string) => void,
): Promise<Channel> {
  const onFailure = (error: unknown): void => onRefused(messageOf(error));
  return retry(() => dialOnce(address, key, identity, reader, signal), { ...DIAL_BACKOFF, jitter: true, signal, onFailure });
}

function dialOnce(
  address: { readonly host: string; readonly port: number },
  key: Uint8Array,
  identity: Identity,
  reader: Reader,
  signal: AbortSignal,
): Promise<Channel> {
  return new Promise<Channel>((resolve, reject) => {
    const settle = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.removeListener('close', onClose).removeListener('error', onError).removeListener('end', onClose);
    };
    const refuse = (refusal: string) => {
      settle();
      socket.on('error', () => {});
      socket.destroy();
      reject(new TonyError('RING_JOIN_FAILED', `${address.host}:${address.port} ${refusal}`));
    };
    const open = (channel: Channel) => {
      settle();
      resolve(channel);
    };
    // Node.js asks for the next buffer as soon as this function returns, so `current` must change at once.
    const onAuthenticated = (transcript: Uint8Array) => {
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      const agreement = { key, transcript };
      if (identity.security === 'encrypted') {
        // The TLS socket reports the errors of this socket.
        socket.on('error', () => {});
        dialedTlsChannel(socket, agreement, reader).then(open, (error) => refuse(messageOf(error)));
        return;
      }
      const { channel, raw } = dialedChannel(socket, identity.security, agreement, reader);
      current = raw;
      open(channel);
    };
    const onAbort = () => refuse('did not complete the handshake before this process stopped trying');
    const onClose = () => refuse('closed the connection during the handshake');
    const onError = (error: Error) => refuse(`could not be reached (${messageOf(error)})`);
    const handshake = new DialerHandshake(key, identity, (proof) => socket.write(proof), onAuthenticated, refuse);
    let current: Reader = handshake;
    const socket = connect({
      host: address.host,
      port: address.port,
      noDelay: true,
      // Node.js calls this function before each read.
      onread: { buffer: () => current.destination(), callback: (count) => current.received(count) },
    });
    const timer = setTimeout(() => refuse(`did not complete the handshake within ${HANDSHAKE_MS / 1000} s`), HANDSHAKE_MS);
    signal.addEventListener('abort', onAbort);
    socket.on('close', onClose).on('error', onError).on('end', onClose);
    socket.once('connect', () => socket.write(handshake.hello));
  });
}

/** Performs the dialer's side of the handshake. Reads exactly one frame at a time, so that later bytes stay in the socket. */
class DialerHandshake implements Reader {
  readonly hello: Buffer;
  readonly #key: Uint8Array;
  readonly #expected: Identity;
  readonly #send: (proof: Buffer) => void;
  readonly #onAuthenticated: (transcript: Uint8Array) => void;
  readonly #onRefused: (refusal: string) => void;
  #transcript: Uint8Array = Buffer.alloc(0);
  #frame = Buffer.alloc(CHALLENGE_BYTES);
  #filled = 0;

  constructor(
    key: Uint8Array,
    identity: Identity,
    send: (proof: Buffer) => void,
    onAuthenticated: (transcript: Uint8Array) => void,
    onRefused: (refusal: string) => void,
  ) {
    this.hello = encodeHello(identity, randomBytes(NONCE_BYTES));
    this.#key = key;
    this.#expected = { ...identity, from: identity.to, to: identity.from };
    this.#send = send;
    this.#onAuthenticated = onAuthenticated;
    this.#onRefused = onRefused;
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
      if (this.#frame.equals(WELCOME)) {
        this.#onAuthenticated(this.#transcript);
      } else {
        this.#onRefused('sent an invalid last frame of the handshake');
      }
      return;
    }
    const answer = answerChallenge(this.#key, this.#frame, this.#expected, this.hello);
    if ('refusal' in answer) {
      this.#onRefused(answer.refusal);
      return;
    }
    this.#transcript = answer.transcript;
    this.#send(answer.proof);
    this.#frame = Buffer.alloc(WELCOME.length);
    this.#filled = 0;
  }
}
