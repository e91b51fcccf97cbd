import { createHmac } from 'node:crypto';
import type { Server } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { pskClientOptions, pskServerOptions, TLS_HANDSHAKE_MS } from '../../contract/connections/psk-tls.ts';
import { ConnectionLimit } from '../../platform/connection-limit.ts';

/*
 * TensorBoard has no authentication, so only the job's own ApplicationMaster may connect to it. TensorBoard's container accepts TLS
 * connections with a pre-shared key, which both sides derive from the ring key.
 */

const MAX_CONNECTIONS = 256;

/** Derives a separate key, so that the ring stays secure if this key leaks. */
function channelKey(ringKey: Uint8Array): Buffer {
  return createHmac('sha256', ringKey).update('tensorboard').digest();
}

interface ServeOptions {
  readonly ringKey: Uint8Array;
  /** Receives each authenticated connection, and must handle its errors and close it. */
  readonly onConnection: (socket: TLSSocket) => void;
  /** Called when a peer fails to authenticate or disconnects before the handshake is complete. */
  readonly onRefused: (message: string) => void;
}

/** Creates a server that does not listen yet. The caller passes a file descriptor or a port to `listen`. */
export function serveTensorBoard({ ringKey, onConnection, onRefused }: ServeOptions): Server {
  const server = createServer(pskServerOptions(channelKey(ringKey)), onConnection);
  server.on('tlsClientError', (error) => onRefused(error.message));
  const limit = new ConnectionLimit({ mostUnproven: MAX_CONNECTIONS, most: MAX_CONNECTIONS });
  server.on('connection', (socket) => limit.admit(socket));
  server.on('secureConnection', (socket) => limit.proven(socket));
  return server;
}

/**
 * Connects to TensorBoard's HTTP server. The caller may write to the socket immediately. A failed connection emits `error` within the
 * handshake deadline.
 */
export function dialTensorBoard({ host, port, ringKey }: { host: string; port: number; ringKey: Uint8Array }): TLSSocket {
  const socket = connect({ ...pskClientOptions(channelKey(ringKey)), host, port });
  const late = setTimeout(
    () => socket.destroy(new Error(`TensorBoard at ${host}:${port} did not answer within ${TLS_HANDSHAKE_MS / 1000} s`)),
    TLS_HANDSHAKE_MS,
  );
  const settled = (): void => clearTimeout(late);
  socket.once('secureConnect', settled).once('close', settled);
  return socket;
}
