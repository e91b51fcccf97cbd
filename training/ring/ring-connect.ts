import { randomBytes } from 'node:crypto';
import { fstatSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { retry } from '../../platform/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import {
  answerChallenge,
  CHALLENGE_BYTES,
  encodeChallenge,
  encodeHello,
  HELLO_BYTES,
  type Identity,
  MAC_BYTES,
  macMatches,
  macOf,
  NONCE_BYTES,
  refusalOf,
  WELCOME,
} from './ring-handshake.ts';

/** The time limit for the handshake of one connection. */
const HANDSHAKE_MS = 10_000;
/** The maximum number of unauthenticated connections at the same time. */
const MAX_STRANGERS = 16;
const KEEP_ALIVE_MS = 30_000;
const DIAL_BACKOFF = { firstMs: 20, mostMs: 1_000 };

export interface Listener {
  /** The descriptor of an inherited listening socket; null if there is none. */
  readonly fd: number | null;
  readonly host: string;
  readonly port: number;
}

/** Connections accepted before their ring starts to form. */
const held = new WeakMap<Server, Socket[]>();

/** Listens on a free port, chosen by the operating system, for a ring that forms later. Holds early connections until then. */
export async function openEarlyListener(host: string): Promise<{ readonly server: Server; readonly port: number }> {
  const server = await openListener({ fd: null, host, port: 0 });
  const early: Socket[] = [];
  held.set(server, early);
  server.on('connection', (socket: Socket) => {
    if (held.has(server) && early.length < MAX_STRANGERS) {
      early.push(socket);
    } else if (held.has(server)) {
      socket.destroy();
    }
  });
  return { server, port: (server.address() as { port: number }).port };
}

/**
 * Listens on the inherited socket. If it was not passed on (npm closes unknown file descriptors), binds the announced address instead.
 */
export async function openListener(listener: Listener): Promise<Server> {
  if (listener.fd !== null && isSocket(listener.fd)) {
    try {
      return await listen(listener.port, { fd: listener.fd });
    } catch {
      // Another file now has this descriptor number.
    }
  }
  try {
    return await listen(listener.port, { host: listener.host, port: listener.port });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EADDRNOTAVAIL' && code !== 'ENOTFOUND') {
      throw new TonyError('RING_JOIN_FAILED', `cannot listen on ${listener.host}:${listener.port}: ${messageOf(error)}`, { cause: error });
    }
    // Behind address translation the announced name does not resolve to a local address.
    return await listen(listener.port, { port: listener.port });
  }
}

function isSocket(fd: number): boolean {
  try {
    return fstatSync(fd).isSocket();
  } catch {
    return false;
  }
}

async function listen(port: number, where: { fd: number } | { host?: string; port: number }): Promise<Server> {
  const server = createServer({ noDelay: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, resolve);
  });
  const address = server.address();
  if (port !== 0 && (address === null || typeof address === 'string' || address.port !== port)) {
    server.close();
    throw new TonyError('RING_JOIN_FAILED', `the inherited socket does not listen on port ${port}`);
  }
  return server;
}

/**
 * Waits until the right neighbour connects and authenticates. Rejects other connections and reports them to `onRefused`; at most
 * MAX_STRANGERS handshakes run at the same time. The caller closes the server.
 */
export function acceptNeighbour(
  server: Server,
  key: Uint8Array,
  /** The identity that the dialer must prove. */
  expected: Identity,
  signal: AbortSignal,
  onRefused: (reason: string) => void,
): Promise<Socket> {
  return new Promise<Socket>((resolve, reject) => {
    const strangers = new Set<Socket>();
    const settle = () => {
      server.removeListener('connection', onConnection);
      signal.removeEventListener('abort', onAbort);
      for (const stranger of strangers) {
        stranger.destroy();
      }
    };
    const onAbort = () => {
      settle();
      reject(signal.reason);
    };
    const onConnection = (socket: Socket) => {
      if (strangers.size >= MAX_STRANGERS) {
        // Drops the oldest handshake: a real neighbour completes it within milliseconds.
        const [slowest] = strangers;
        slowest?.destroy();
      }
      strangers.add(socket);
      const from = socket.remoteAddress ?? 'a stranger';
      greet(socket, key, expected).then(
        () => {
          strangers.delete(socket);
          settle();
          resolve(socket);
        },
        (error) => {
          strangers.delete(socket);
          socket.destroy();
          onRefused(`${from} ${messageOf(error)}`);
        },
      );
    };
    signal.addEventListener('abort', onAbort);
    server.on('connection', onConnection);
    const early = held.get(server) ?? [];
    held.delete(server);
    early.forEach(onConnection);
  });
}

/** The acceptor's side of the handshake. */
function greet(socket: Socket, key: Uint8Array, expected: Identity): Promise<void> {
  const reply: Identity = { ...expected, from: expected.to, to: expected.from };
  return new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => settle('took too long'), HANDSHAKE_MS);
    let received = Buffer.alloc(0);
    let hello: Buffer | null = null;
    let expectedProof: Buffer | null = null;
    const settle = (refusal: string | null) => {
      clearTimeout(timer);
      socket.removeListener('data', onData).removeListener('close', onClose).removeListener('error', onClose);
      if (refusal === null) {
        resolve();
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
      if (hello === null && received.length >= HELLO_BYTES) {
        hello = received.subarray(0, HELLO_BYTES);
        const refusal = refusalOf(hello, expected);
        if (refusal !== null) {
          settle(refusal);
          return;
        }
        const challenge = encodeChallenge(key, reply, randomBytes(NONCE_BYTES), hello);
        expectedProof = macOf(key, 'dialer', hello, challenge.subarray(0, HELLO_BYTES));
        socket.write(challenge);
      }
      if (expectedProof !== null && received.length === HELLO_BYTES + MAC_BYTES) {
        if (!macMatches(received.subarray(HELLO_BYTES), expectedProof)) {
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
  const hello = encodeHello(identity, randomBytes(NONCE_BYTES));
  const expected: Identity = { ...identity, from: identity.to, to: identity.from };
  return new Promise<Socket>((resolve, reject) => {
    // Reads exactly one handshake frame at a time, so that no data byte is read before its destination is known.
    let frame = Buffer.alloc(CHALLENGE_BYTES);
    let filled = 0;
    let proven = false;
    const settle = (refusal: string | null) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.removeListener('close', onClose).removeListener('error', onError).removeListener('end', onClose);
      if (refusal === null) {
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
    const onHandshake = (count: number): boolean => {
      filled += count;
      if (filled < frame.length) {
        return true;
      }
      if (frame.length === CHALLENGE_BYTES) {
        const answer = answerChallenge(key, frame, expected, hello);
        if ('refusal' in answer) {
          settle(answer.refusal);
          return true;
        }
        socket.write(answer.proof);
        frame = Buffer.alloc(WELCOME.length);
        filled = 0;
      } else if (frame.equals(WELCOME)) {
        proven = true;
        socket.setKeepAlive(true, KEEP_ALIVE_MS);
        settle(null);
      } else {
        settle('ended the handshake in an unknown way');
      }
      return true;
    };
    const socket = connect({
      host: address.host,
      port: address.port,
      noDelay: true,
      onread: {
        // In the function form, Node.js calls `buffer` before each read.
        buffer: () => (proven ? reader.destination() : filled < frame.length ? frame.subarray(filled) : Buffer.alloc(1)),
        callback: (count) => (proven ? reader.received(count) : onHandshake(count)),
      },
    });
    const timer = setTimeout(() => settle('did not answer in time'), HANDSHAKE_MS);
    signal.addEventListener('abort', onAbort);
    socket.on('close', onClose).on('error', onError).on('end', onClose);
    socket.once('connect', () => socket.write(hello));
  });
}
