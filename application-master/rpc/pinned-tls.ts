import { createServer, type Server, type TLSSocket } from 'node:tls';
import { ConnectionLimit } from '../../platform/connection-limit.ts';
import type { Secret } from '../../platform/secret.ts';

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
  /** Maximum number of unauthenticated connections (default 512). */
  readonly mostUnproven?: number;
  /** Timeout in ms for authentication (default 10,000). */
  readonly proofMs?: number;
  readonly graceMs?: number;
}

/**
 * Creates a TLS 1.3 server with the job's self-signed certificate. The server limits the number of unauthenticated connections, and does
 * not listen yet.
 * @param protocols the protocols that the server offers in ALPN, or an empty list to offer none
 */
export function createPinnedTls(
  { certificate, privateKey, clients, mostUnproven = MAX_UNPROVEN, proofMs = PROOF_MS, graceMs = GRACE_MS }: PinnedTlsOptions,
  protocols: readonly string[],
  onConnection: (socket: TLSSocket) => void,
): { readonly server: Server; readonly limit: ConnectionLimit } {
  const isProof = clients === 'certificate';
  const pem = Buffer.from(certificate.reveal());
  const limit = new ConnectionLimit({ mostUnproven, deadlineMs: proofMs, graceMs });
  const server = createServer({
    ...(isProof && { ca: pem }),
    cert: pem,
    key: Buffer.from(privateKey.reveal()),
    requestCert: isProof,
    rejectUnauthorized: isProof,
    minVersion: 'TLSv1.3',
    ...(protocols.length > 0 && { ALPNProtocols: [...protocols] }),
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
