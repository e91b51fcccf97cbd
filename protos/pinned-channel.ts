import { createSecureContext } from 'node:tls';
import { type ChannelCredentials, type ChannelOptions, credentials } from '@grpc/grpc-js';
import { CERTIFICATE_NAME, pinnedIdentity } from './pinned-identity.ts';

/** Interval in ms between keepalive pings. The pings detect machines that have failed without closing their connections. */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_ANSWER_MS = 10_000;
/** Maximum time in ms until one end of a connection detects that the machine at the other end has failed. */
export const LINK_LOSS_MS = KEEPALIVE_MS + KEEPALIVE_ANSWER_MS;

/**
 * Channel options for connections to a job's ApplicationMaster. The channels do not use a proxy, and send keepalive pings to detect failed
 * machines.
 */
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
 * @param certificate the job's certificate in PEM format
 * @param key the certificate's private key in PEM format. A client that has this key authenticates itself as part of the job.
 */
export function pinnedCredentials(certificate: string | Buffer, key?: Buffer): ChannelCredentials {
  const own = key === undefined ? {} : { cert: certificate, key };
  return credentials.createFromSecureContext(createSecureContext({ minVersion: 'TLSv1.3', ca: certificate, ...own }), {
    checkServerIdentity: pinnedIdentity(certificate),
  });
}
