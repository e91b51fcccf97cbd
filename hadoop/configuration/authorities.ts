import { additionalAuthorities, ServerTrust } from '../tls/server-trust.ts';
import { readTrustStore } from '../tls/trust-store.ts';

/**
 * A property that tony-ts adds to Hadoop's: the cluster's certificate authorities in PEM format, from the client's truststore. Certificates
 * are public, so job.json can contain this property.
 */
export const AUTHORITIES = 'tony.tls.authorities';

interface Properties {
  get(key: string): string | undefined;
}

/** Returns the trust settings for HTTPS connections to the cluster's daemons. */
export function trustOf(configuration: Properties): ServerTrust {
  return ServerTrust.of(configuration.get(AUTHORITIES) ?? '');
}

/**
 * Reads the truststore named in ssl-client.xml. If the file names no truststore, clients trust the default authorities, as in Hadoop.
 * @param given authorities from the user, in PEM format. If this is not empty, an unreadable truststore is ignored.
 * @param read reads a file from the configuration folder; returns null if the file does not exist
 * @throws TonyError HADOOP_CONF_INVALID, TRUST_STORE_UNREADABLE
 */
export async function readAuthorities(
  configuration: Properties,
  given: string,
  read: (files: readonly string[]) => Promise<Properties | null>,
): Promise<Readonly<Record<string, string>>> {
  const client = await read([configuration.get('hadoop.ssl.client.conf') ?? 'ssl-client.xml']);
  const location = client?.get('ssl.client.truststore.location');
  const password = client?.get('ssl.client.truststore.password') || null;
  const stored = location ? await readTrustStore({ location, password }).catch((error: unknown) => unlessGiven(given, error)) : '';
  return { [AUTHORITIES]: additionalAuthorities(`${stored}\n${given}`) };
}

/** Adds certificate authorities in PEM format to those of the configuration. */
export function withAuthorities<C extends Properties & { with(properties: Readonly<Record<string, string>>): C }>(
  configuration: C,
  pem: string,
): C {
  return pem === ''
    ? configuration
    : configuration.with({ [AUTHORITIES]: additionalAuthorities(`${configuration.get(AUTHORITIES) ?? ''}\n${pem}`) });
}

function unlessGiven(given: string, error: unknown): string {
  if (given === '') {
    throw error;
  }
  return '';
}
