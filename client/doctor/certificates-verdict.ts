import { connect, type DetailedPeerCertificate, type TLSSocket } from 'node:tls';
import { offersBoth, trustOf } from '../../hadoop/configuration/authorities.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { gatewayOf } from '../../hadoop/configuration/file-systems/gateway.ts';
import { fileSystemsOf, locationOf } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { nameNodesOf } from '../../hadoop/configuration/file-systems/name-nodes.ts';
import type { ServerTrust } from '../../hadoop/tls/server-trust.ts';
import { tlsFailure } from '../../hadoop/tls/tls-failure.ts';
import type { TonyError } from '../../platform/errors.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

const TIMEOUT_MS = 5_000;
/** The check warns about certificates that expire within this time (ms). */
const RENEW_BEFORE_MS = 14 * 24 * 60 * 60 * 1000;

type Certificate = { readonly expiresAt: number } | { readonly failure: TonyError } | 'no answer';

/**
 * Checks every ResourceManager's and NameNode's certificate. Other commands do not notice an invalid certificate as long as another server
 * works, but they fail after a failover.
 */
export async function certificatesVerdict(configuration: HadoopConfiguration, now = Date.now()): Promise<CheckResult> {
  if (offersBoth(configuration)) {
    return doubtful(
      "HDFS offers HTTP and HTTPS, but this client trusts none of the cluster's certificate authorities, so it uses HTTP: data and tokens cross the network in clear text",
      'To use HTTPS, name a readable truststore in the ssl-client.xml of HADOOP_CONF_DIR (ssl.client.truststore.location), or a PEM file as tls.ca in tony-site.yaml.',
    );
  }
  const servers = httpsServers(configuration);
  if (servers.length === 0) {
    return good('no connection to a ResourceManager or NameNode uses HTTPS');
  }
  const trust = trustOf(configuration);
  const found = await Promise.all(servers.map(async (server) => ({ server, certificate: await certificateOf(new URL(server), trust) })));
  const failures = found.flatMap(({ certificate }) =>
    typeof certificate === 'object' && 'failure' in certificate ? [certificate.failure] : [],
  );
  const [failure] = failures;
  if (failure !== undefined) {
    return doubtful(`not trusted: ${failures.map(({ message }) => message).join(' ')}`, failure.hint);
  }
  const valid = found.flatMap(({ server, certificate }) =>
    typeof certificate === 'object' && 'expiresAt' in certificate ? [{ server, expiresAt: certificate.expiresAt }] : [],
  );
  const [first] = valid.sort((one, other) => one.expiresAt - other.expiresAt);
  if (first === undefined) {
    return good(`unknown: none of ${servers.join(', ')} answers`);
  }
  const silent = servers.length - valid.length;
  const text = `${valid.length} trusted${silent === 0 ? '' : `, ${silent} unknown because the server does not answer`}; the certificate of ${new URL(first.server).host} expires first, on ${new Date(first.expiresAt).toISOString().slice(0, 10)}`;
  return first.expiresAt - now < RENEW_BEFORE_MS ? doubtful(text, 'Ask the cluster admin to renew the certificate.') : good(text);
}

/** Returns the HTTPS addresses of the ResourceManagers and of the default file system's NameNodes. */
function httpsServers(configuration: HadoopConfiguration): readonly string[] {
  const standard = locationOf(configuration.defaultFs);
  const fileSystems = standard === null ? [] : fileSystemsOf(configuration, standard);
  const storage = fileSystems.flatMap((fileSystem) => {
    const gateway = gatewayOf(configuration, fileSystem);
    return gateway === null ? nameNodesOf(configuration, fileSystem) : [gateway];
  });
  return [...new Set([...configuration.resourceManagers, ...storage])].filter((address) => address.startsWith('https:'));
}

function certificateOf(server: URL, trust: ServerTrust): Promise<Certificate> {
  return new Promise((resolve) => {
    const host = server.hostname.replace(/^\[|\]$/g, '');
    const socket: TLSSocket = connect({
      ...trust.connectionOptions(),
      host,
      port: Number(server.port || 443),
      servername: /^[\d.:]+$/.test(host) ? '' : host,
    });
    const end = (certificate: Certificate): void => {
      socket.destroy();
      resolve(certificate);
    };
    socket.setTimeout(TIMEOUT_MS, () => end('no answer'));
    socket.once('secureConnect', () => {
      const { valid_to } = socket.getPeerCertificate() as Partial<DetailedPeerCertificate>;
      end(valid_to === undefined ? 'no answer' : { expiresAt: Date.parse(valid_to) });
    });
    socket.on('error', (error) => {
      const failure = tlsFailure(error, server);
      end(failure === null ? 'no answer' : { failure });
    });
  });
}
