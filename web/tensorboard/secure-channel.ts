import { createHmac } from 'node:crypto';
import type { Server } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { ConnectionLimit } from '../../platform/connection-limit.ts';

/*
 * TensorBoard has no authentication, so only the job's own ApplicationMaster may reach it: the container of TensorBoard serves it over TLS
 * with a pre-shared key that both sides derive from the ring key (RFC 4279, ECDHE_PSK: RFC 5489 and RFC 7905). TLS 1.2 is the newest
 * version for which Node supports pre-shared keys.
 */

const IDENTITY = 'tony-ts-tensorboard';
const TLS = { ciphers: 'ECDHE-PSK-CHACHA20-POLY1305', minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' } as const;
const HANDSHAKE_MS = 10_000;
/** Beyond this limit the oldest unauthenticated connection is closed in favour of a new one. */
const MAX_CONNECTIONS = 256;

/** Derives a separate key, so that a leak here does not compromise the ring. */
export function channelKey(ringKey: Uint8Array): Buffer {
  return createHmac('sha256', ringKey).update('tensorboard').digest();
}

export interface ServeOptions {
  /** The job's ring key. */
  readonly ringKey: Uint8Array;
  /** Receives an authenticated connection and owns its errors and its end. */
  readonly onConnection: (socket: TLSSocket) => void;
  /** Reports a peer that failed to authenticate, or a connection that broke before. */
  readonly onRefused: (message: string) => void;
}

/** Creates a server that does not listen yet: the caller chooses the descriptor or port. */
export function serveTls({ ringKey, onConnection, onRefused }: ServeOptions): Server {
  const key = channelKey(ringKey);
  const server = createServer(
    {
      ...TLS,
      handshakeTimeout: HANDSHAKE_MS,
      pskCallback: (_socket, identity) => (identity === IDENTITY ? key : null),
    },
    onConnection,
  );
  server.on('tlsClientError', (error) => onRefused(error.message));
  const limit = new ConnectionLimit({ mostUnproven: MAX_CONNECTIONS, most: MAX_CONNECTIONS });
  server.on('connection', (socket) => limit.admit(socket));
  server.on('secureConnection', (socket) => limit.proven(socket));
  return server;
}

export interface DialOptions {
  readonly host: string;
  readonly port: number;
  /** The job's ring key. */
  readonly ringKey: Uint8Array;
}

/** Connects to TensorBoard's HTTP server. The socket is writable at once; a failure shows as an `error` within seconds. */
export function dialTls({ host, port, ringKey }: DialOptions): TLSSocket {
  const psk = channelKey(ringKey);
  const socket = connect({
    ...TLS,
    host,
    port,
    pskCallback: () => ({ identity: IDENTITY, psk }),
    // The pre-shared key authenticates the peer: there is no certificate to verify.
    checkServerIdentity: () => undefined,
  });
  const late = setTimeout(
    () => socket.destroy(new Error(`TensorBoard at ${host}:${port} did not answer within ${HANDSHAKE_MS / 1000} s`)),
    HANDSHAKE_MS,
  );
  const settled = (): void => clearTimeout(late);
  socket.once('secureConnect', settled).once('close', settled);
  return socket;
}
