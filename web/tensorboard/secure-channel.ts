import { createHmac } from 'node:crypto';
import type { Server } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';

/*
 * TensorBoard knows no users, so nobody but the job's own ApplicationMaster may reach it: its container serves it by TLS with a key that
 * both already have (RFC 4279, ECDHE_PSK: RFC 5489 and RFC 7905), and to nobody else. TLS 1.2, since Node has such keys for no later one.
 */

const IDENTITY = 'tony-ts-tensorboard';
const TLS = { ciphers: 'ECDHE-PSK-CHACHA20-POLY1305', minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' } as const;
const HANDSHAKE_MS = 10_000;
const MAX_CONNECTIONS = 256;

/** A key of its own: what leaks here opens no ring. */
export function channelKey(ringKey: Uint8Array): Buffer {
  return createHmac('sha256', ringKey).update('tensorboard').digest();
}

export interface ServeOptions {
  /** Of the job. */
  readonly ringKey: Uint8Array;
  /** A peer that has shown the key. Its errors and its end are the callee's. */
  readonly onConnection: (socket: TLSSocket) => void;
  /** A peer that has not, or a connection that broke before. */
  readonly onRefused: (message: string) => void;
}

/** A server that does not listen yet: the caller knows at which descriptor or port. */
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
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

export interface DialOptions {
  readonly host: string;
  readonly port: number;
  /** Of the job. */
  readonly ringKey: Uint8Array;
}

/** A connection to TensorBoard's HTTP server. It may be written to at once; its `error` says when there is none, within seconds. */
export function dialTls({ host, port, ringKey }: DialOptions): TLSSocket {
  const psk = channelKey(ringKey);
  const socket = connect({
    ...TLS,
    host,
    port,
    pskCallback: () => ({ identity: IDENTITY, psk }),
    // The other end has shown that it has the key: there is no certificate to look at.
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
