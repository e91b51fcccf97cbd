import type { Socket } from 'node:net';
import { type ConnectionOptions, connect, createServer, type TLSSocket, type TlsOptions } from 'node:tls';

/*
 * TLS 1.3 between two processes that share a key. The key authenticates both ends (an external pre-shared key, RFC 8446, section 2.2), so
 * neither end has a certificate. Each connection also agrees on a fresh secret by (EC)DHE, which gives forward secrecy. OpenSSL refuses
 * connections without it (SSL_OP_ALLOW_NO_DHE_KEX is not set). External keys work only with cipher suites that use SHA-256.
 */
const TLS = { ciphers: 'TLS_AES_128_GCM_SHA256', minVersion: 'TLSv1.3', maxVersion: 'TLSv1.3' } as const;
const IDENTITY = 'tony-ts';

/** Time limit for one TLS handshake, in ms. */
export const TLS_HANDSHAKE_MS = 10_000;

/** Options for a server that accepts only clients with `key`. Without a certificate, the server cannot answer any other client. */
export function pskServerOptions(key: Buffer): TlsOptions {
  return { ...TLS, handshakeTimeout: TLS_HANDSHAKE_MS, pskCallback: (_socket, identity) => (identity === IDENTITY ? key : null) };
}

/** Options for a client that accepts only a server with `key`. */
export function pskClientOptions(key: Buffer): ConnectionOptions {
  return {
    ...TLS,
    pskCallback: () => ({ identity: IDENTITY, psk: key }),
    // A server may ignore the key and present a certificate instead. The client trusts no authority, and rejects every certificate.
    ca: [],
    checkServerIdentity: () => new Error('the server has presented a certificate instead of proving that it has the key'),
  };
}

/** Starts TLS on a connection, as the server. Rejects if the client does not have `key`. */
export function acceptTls(connection: Socket, key: Buffer): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const server = createServer(pskServerOptions(key), resolve);
    server.on('tlsClientError', (error) => reject(failure(error)));
    server.emit('connection', connection);
  });
}

/** Starts TLS on a connection, as the client. Rejects if the server does not have `key`. The caller limits the time. */
export function dialTls(connection: Socket, key: Buffer): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...pskClientOptions(key), socket: connection });
    const onError = (error: Error) => reject(failure(error));
    const onClose = () => reject(failure(new Error('the connection was closed')));
    socket.on('error', onError).on('close', onClose);
    socket.once('secureConnect', () => {
      socket.removeListener('error', onError).removeListener('close', onClose);
      resolve(socket);
    });
  });
}

function failure(error: Error & { readonly reason?: string }): Error {
  // OpenSSL's `reason` is the readable part of its message.
  return new Error(`did not complete the TLS handshake: ${error.reason ?? error.message}`, { cause: error });
}
