import { credentialFinder } from '../tls/credential-provider.ts';
import { additionalAuthorities, ServerTrust } from '../tls/server-trust.ts';
import { readTrustStore } from '../tls/trust-store.ts';

/**
 * The cluster's certificate authorities in PEM format, from the client's truststore. This property is specific to tony-ts. Certificates are
 * public, so the property can appear in job.json.
 */
export const AUTHORITIES = 'tony.tls.authorities';

interface Properties {
  get(key: string): string | undefined;
}

export function trustOf(configuration: Properties): ServerTrust {
  return ServerTrust.of(configuration.get(AUTHORITIES) ?? '');
}

export const HDFS_POLICY = 'dfs.http.policy';
/**
 * True if HDFS serves both protocols, and HDFS_POLICY is HTTPS_ONLY only because tony-ts has selected HTTPS. This property is specific to
 * tony-ts.
 */
const HTTP_TOO = 'tony.hdfs.http';
/** Selects HTTPS if HDFS offers both protocols. */
export const HTTPS_OF_BOTH: Readonly<Record<string, string>> = { [HDFS_POLICY]: 'HTTPS_ONLY', [HTTP_TOO]: 'true' };
const PASSWORD = 'ssl.client.truststore.password';

/**
 * Reads the truststore named in ssl-client.xml. If the file does not name a truststore, clients trust the default authorities, as in
 * Hadoop.
 *
 * If HDFS offers both HTTP and HTTPS, the result also selects the protocol for this client and its jobs: HTTPS if there are authorities to
 * trust, otherwise HTTP. A client never falls back to HTTP when a connection fails, because an attacker who blocks HTTPS connections could
 * then read tokens and data.
 * @param given authorities from the user, in PEM format. If they are given, an unreadable truststore is ignored.
 * @param read reads a file from the configuration folder, and returns null if the file does not exist
 * @throws TonyError HADOOP_CONF_INVALID, TRUST_STORE_UNREADABLE
 */
export async function readAuthorities(
  configuration: Properties,
  given: string,
  read: (files: readonly string[]) => Promise<Properties | null>,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Readonly<Record<string, string>>> {
  const client = await read([configuration.get('hadoop.ssl.client.conf') ?? 'ssl-client.xml']);
  const location = client?.get('ssl.client.truststore.location');
  const password = client?.get(PASSWORD) || null;
  const properties = { get: (key: string) => client?.get(key) ?? configuration.get(key) };
  const stored = location
    ? await readTrustStore({
        location,
        password,
        storedPassword: () => credentialFinder({ properties, environment })(PASSWORD),
      }).catch((error: unknown) => {
        if (given === '' && !(offersBoth(configuration) && configuration.get('yarn.http.policy') !== 'HTTPS_ONLY')) {
          throw error;
        }
        return '';
      })
    : '';
  const pem = `${stored}\n${given}`;
  return { [AUTHORITIES]: additionalAuthorities(pem), ...httpsIfTrusted(configuration, pem) };
}

/** Returns true if HDFS offers both HTTP and HTTPS, and `readAuthorities` has not selected HTTPS. */
export function offersBoth(configuration: Properties): boolean {
  return configuration.get(HDFS_POLICY) === 'HTTP_AND_HTTPS';
}

/** Returns true if NameNodes listen on their HTTP ports. */
export function servesHttp(configuration: Properties): boolean {
  return configuration.get(HDFS_POLICY) !== 'HTTPS_ONLY' || configuration.get(HTTP_TOO) === 'true';
}

/**
 * Selects HTTPS if HDFS offers both protocols and `pem` contains authorities. Authorities in a truststore count even if Node.js trusts them
 * by default. NODE_EXTRA_CA_CERTS alone does not count, because users often set it for servers outside the cluster.
 */
export function httpsIfTrusted(configuration: Properties, pem: string): Readonly<Record<string, string>> {
  return offersBoth(configuration) && pem.trim() !== '' ? HTTPS_OF_BOTH : {};
}

/** Adds certificate authorities in PEM format to the configuration. */
export function withAuthorities<C extends Properties & { with(properties: Readonly<Record<string, string>>): C }>(
  configuration: C,
  pem: string,
): C {
  return pem.trim() === ''
    ? configuration
    : configuration.with({ [AUTHORITIES]: additionalAuthorities(`${configuration.get(AUTHORITIES) ?? ''}\n${pem}`) });
}
