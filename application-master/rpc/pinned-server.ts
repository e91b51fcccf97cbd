import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import { createPinnedTls, type PinnedTlsOptions } from './pinned-tls.ts';

/**
 * Interval in ms between keepalive pings. The pings detect clients whose machines have failed. Otherwise, the streams of such clients would
 * stay open.
 */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_ANSWER_MS = 10_000;

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
  const { server: front, limit } = createPinnedTls(options, ['h2'], (socket) => injector.injectConnection(socket));
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
