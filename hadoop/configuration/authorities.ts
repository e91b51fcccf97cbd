import { additionalAuthorities, ServerTrust } from '../tls/server-trust.ts';
import { readTrustStore } from '../tls/trust-store.ts';

/**
 * The cluster's own certificate authorities, as PEM: not a property of Hadoop, but the content of its client's truststore. Certificates are
 * public, so they travel with the job's configuration.
 */
export const AUTHORITIES = 'tony.tls.authorities';

interface Properties {
  get(key: string): string | undefined;
}

/** The HTTPS servers that clients of this cluster accept. */
export function trustOf(configuration: Properties): ServerTrust {
  return ServerTrust.of(configuration.get(AUTHORITIES) ?? '');
}

/**
 * Reads the truststore that ssl-client.xml names. Without a truststore, Hadoop's clients also trust the default
 * authorities only.
 *
 * @param given authorities, as PEM, that the user names otherwise; with them, an unreadable truststore is no error
 * @param read reads a file of the configuration's folder; null if it does not exist
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

/** Adds authorities, as PEM, to those of the configuration. */
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
