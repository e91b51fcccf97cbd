import { X509Certificate } from 'node:crypto';
import { createSecureContext, type PeerCertificate } from 'node:tls';
import { type ChannelCredentials, type ChannelOptions, credentials } from '@grpc/grpc-js';
import { CERTIFICATE_NAME } from './executor-protocol.ts';

/** A failed machine does not close its connections, so only keepalive pings detect its failure. */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_ANSWER_MS = 10_000;
/** Maximum time until one end of a connection detects that the other end's machine has failed (ms). */
export const LINK_LOSS_MS = KEEPALIVE_MS + KEEPALIVE_ANSWER_MS;

/** Options of every connection to a job's ApplicationMaster: no proxy, and keepalive pings that detect its loss quickly. */
export const PINNED_CHANNEL_OPTIONS: ChannelOptions = {
  'grpc.ssl_target_name_override': CERTIFICATE_NAME,
  'grpc.default_authority': CERTIFICATE_NAME,
  'grpc.enable_http_proxy': 0,
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.keepalive_time_ms': KEEPALIVE_MS,
  'grpc.keepalive_timeout_ms': KEEPALIVE_ANSWER_MS,
};

/**
 * Creates TLS 1.3 credentials that accept only a server with the job's certificate.
 *
 * @param certificate the job's certificate, PEM.
 * @param key the certificate's private key, PEM. If given, it authenticates this client as part of the job.
 */
export function pinnedCredentials(certificate: string | Buffer, key?: Buffer): ChannelCredentials {
  const { fingerprint256 } = new X509Certificate(certificate);
  const own = key === undefined ? {} : { cert: certificate, key };
  return credentials.createFromSecureContext(createSecureContext({ minVersion: 'TLSv1.3', ca: certificate, ...own }), {
    checkServerIdentity: (_host: string, peer: PeerCertificate) =>
      peer.fingerprint256 === fingerprint256 ? undefined : new Error("the ApplicationMaster's certificate is not the job's"),
  });
}

/** Formats an address as `host:port`, with brackets around an IPv6 address. */
export function grpcAddress({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
