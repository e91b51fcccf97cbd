import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { type Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import { ConnectionLimit } from '../../platform/connection-limit.ts';
import type { Secret } from '../../platform/secret.ts';

/** Timeout in ms for the handshake, and for sending the token if clients authenticate with a token. */
const PROOF_MS = 10_000;
/**
 * Minimum age in ms at which an unauthenticated connection may be closed to make room for a new one. Authentication takes milliseconds, but
 * handshakes queue if many executors connect at the same time.
 */
const GRACE_MS = 1_000;
const MAX_UNPROVEN = 512;

export interface PinnedServerOptions {
  /** Certificate in PEM format. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  /**
   * Authentication method of the clients:
   * - `certificate`: the handshake succeeds only with the job's key.
   * - `token`: clients verify the job's certificate and send a token in their messages. The caller then passes the address of an
   *   authenticated client to `PinnedListener.proven`.
   */
  readonly clients: 'certificate' | 'token';
  /** Maximum number of unauthenticated connections (default 512). */
  readonly mostUnproven?: number;
  /** Timeout in ms for authentication (default 10,000). */
  readonly proofMs?: number;
  readonly graceMs?: number;
}

export interface PinnedListener {
  readonly port: number;
  /** Marks a client's connection as authenticated. `peer` is in gRPC's form `address:port`. */
  proven(peer: string): void;
  /** Stops accepting connections. Existing connections remain until the gRPC server closes them. */
  close(): void;
}

/**
 * Listens on the address with the job's self-signed certificate. gRPC's own listener can neither limit the number of connections nor set a
 * handshake timeout below two minutes. This listener therefore performs the handshake and then passes the connection to gRPC.
 */
export async function listenPinned(server: Server, address: string, options: PinnedServerOptions): Promise<PinnedListener> {
  const { certificate, privateKey, clients, mostUnproven = MAX_UNPROVEN, proofMs = PROOF_MS, graceMs = GRACE_MS } = options;
  const isProof = clients === 'certificate';
  const pem = Buffer.from(certificate.reveal());
  const limit = new ConnectionLimit({ mostUnproven, deadlineMs: proofMs, graceMs });
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const front = createServer({
    ...(isProof && { ca: pem }),
    cert: pem,
    key: Buffer.from(privateKey.reveal()),
    requestCert: isProof,
    rejectUnauthorized: isProof,
    minVersion: 'TLSv1.3',
    ALPNProtocols: ['h2'],
    handshakeTimeout: proofMs,
  });
  front.on('connection', (socket) => limit.admit(socket));
  front.on('secureConnection', (socket) => {
    // A broken connection is not a server error. The session handles it.
    socket.on('error', () => {});
    if (isProof) {
      limit.proven(socket);
    }
    injector.injectConnection(socket);
  });
  // The client is unknown, or the connection broke during the handshake.
  front.on('tlsClientError', (_, socket) => socket.destroy());
  front.listen(0, address);
  await once(front, 'listening');
  return {
    port: (front.address() as AddressInfo).port,
    proven: (peer) => {
      const colon = peer.lastIndexOf(':');
      limit.proven({ remoteAddress: peer.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), remotePort: Number(peer.slice(colon + 1)) });
    },
    close: () => void front.close(),
  };
}

/** Calls `ended` when a client's stream ends in any way, and ends the server's side of the stream. */
export function onStreamEnd<Request, Response>(stream: ServerDuplexStream<Request, Response>, ended: () => void): void {
  stream.on('end', () => {
    ended();
    stream.end();
  });
  stream.on('error', ended);
  stream.on('cancelled', ended);
  stream.on('close', ended);
}
