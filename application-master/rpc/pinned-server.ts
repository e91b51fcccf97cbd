import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import * as tls from 'node:tls';
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import { ConnectionLimit, withinDescriptors } from '../../platform/connection-limit.ts';
import type { Secret } from '../../platform/secret.ts';

/**
 * Interval in ms between keepalive pings. The pings detect clients whose machines have failed. Otherwise, the streams of such clients would
 * stay open.
 */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_ANSWER_MS = 10_000;
/**
 * Timeout in ms for the handshake. If clients authenticate with a token, the message that contains the token must also arrive within this
 * time.
 */
const PROOF_MS = 10_000;
/**
 * Minimum age in ms at which an unauthenticated connection may be closed to make room for a new one. Authentication itself takes
 * milliseconds, but handshakes must wait when many executors connect at the same time.
 */
const GRACE_MS = 1_000;
const MAX_UNPROVEN = 512;

export interface PinnedTlsOptions {
  /** Certificate in PEM format. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  /**
   * How clients authenticate:
   * - `certificate`: the handshake succeeds only with the job's key.
   * - `token`: clients verify the job's certificate and send a token in a message. The caller then marks the connection as authenticated.
   */
  readonly clients: 'certificate' | 'token';
  /** Maximum number of unauthenticated connections (default 512, or less if the process may open only few files). */
  readonly mostUnproven?: number;
  /** Timeout in ms for authentication (default 10,000). */
  readonly proofMs?: number;
  readonly graceMs?: number;
}

/** Creates a server for clients that authenticate with a token. */
export function createClientServer(limits: { readonly messageBytes: number; readonly streams: number }): Server {
  return new Server({
    'grpc.max_receive_message_length': limits.messageBytes,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_ANSWER_MS,
    'grpc.max_concurrent_streams': limits.streams,
  });
}

export interface PinnedListener {
  readonly port: number;
  /** Marks a client's connection as authenticated. `peer` is the client's address as gRPC formats it, `address:port`. */
  proven(peer: string): void;
  /** Stops accepting connections. Existing connections remain until the gRPC server closes them. */
  close(): void;
}

/**
 * Listens on the address with the job's self-signed certificate. This server performs the handshake itself and then passes the connection
 * to gRPC, because gRPC can neither limit the number of connections nor set a handshake timeout below two minutes.
 */
export async function listenPinned(server: Server, address: string, options: PinnedTlsOptions): Promise<PinnedListener> {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const { server: front, limit } = createPinnedTls(options, (socket) => injector.injectConnection(socket));
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

/** Creates a TLS 1.3 server for gRPC with the job's self-signed certificate, which limits the number of unauthenticated connections. */
function createPinnedTls(
  {
    certificate,
    privateKey,
    clients,
    mostUnproven = withinDescriptors(MAX_UNPROVEN),
    proofMs = PROOF_MS,
    graceMs = GRACE_MS,
  }: PinnedTlsOptions,
  onConnection: (socket: tls.TLSSocket) => void,
): { readonly server: tls.Server; readonly limit: ConnectionLimit } {
  const isProof = clients === 'certificate';
  const pem = Buffer.from(certificate.reveal());
  const limit = new ConnectionLimit({ mostUnproven, deadlineMs: proofMs, graceMs });
  const server = tls.createServer({
    ...(isProof && { ca: pem }),
    cert: pem,
    key: Buffer.from(privateKey.reveal()),
    requestCert: isProof,
    rejectUnauthorized: isProof,
    minVersion: 'TLSv1.3',
    ALPNProtocols: ['h2'],
    handshakeTimeout: proofMs,
  });
  server.on('connection', (socket) => limit.admit(socket));
  server.on('secureConnection', (socket) => {
    // A broken connection is not a server error. The connection's owner handles this.
    socket.on('error', () => {});
    if (isProof) {
      limit.proven(socket);
    }
    onConnection(socket);
  });
  // The client could not be authenticated, or the connection broke during the handshake.
  server.on('tlsClientError', (_, socket) => socket.destroy());
  return { server, limit };
}

/** When a client's stream ends for any reason, calls `ended` and closes the server's side of the stream. */
export function onStreamEnd<Request, Response>(stream: ServerDuplexStream<Request, Response>, ended: () => void): void {
  stream.on('end', () => {
    ended();
    stream.end();
  });
  stream.on('error', ended);
  stream.on('cancelled', ended);
  stream.on('close', ended);
}
