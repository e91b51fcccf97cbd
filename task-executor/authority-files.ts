import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { rootCertificates } from 'node:tls';

/** Files with the authorities that the operating system trusts: on Debian and Alpine, Red Hat, SUSE. */
const SYSTEM_BUNDLES = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/ca-bundle.pem'];
/** This file contains only the cluster's authorities, because Node.js adds them to its own. */
const ADDITIONAL = 'cluster-authorities.pem';
/** This file contains all authorities, for programs that use the file instead of their own authorities. */
const ALL = 'all-authorities.pem';
/** Read by OpenSSL (for Python's ssl module and most other programs), by the Python packages requests and botocore, and by curl. */
const REPLACING = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'];

/**
 * Writes the cluster's certificate authorities to files in the container's folder. Returns the environment variables that make programs
 * trust these authorities. Omits the variables that `environment` already sets.
 * @param authorities in PEM format; empty if the cluster has no authorities of its own
 */
export async function authorityEnvironment(
  folder: string,
  authorities: string,
  environment: Readonly<Record<string, string | undefined>>,
  systemBundles: readonly string[] = SYSTEM_BUNDLES,
): Promise<Record<string, string>> {
  if (authorities === '') {
    return {};
  }
  const [additional, all] = [path.join(folder, ADDITIONAL), path.join(folder, ALL)];
  const system = await firstBundle(systemBundles);
  await Promise.all([writeFile(additional, `${authorities.trim()}\n`), writeFile(all, `${system.trim()}\n${authorities.trim()}\n`)]);
  const variables = { NODE_EXTRA_CA_CERTS: additional, ...Object.fromEntries(REPLACING.map((name) => [name, all])) };
  return Object.fromEntries(Object.entries(variables).filter(([name]) => environment[name] === undefined));
}

/** Returns the system's authorities. On a system without such a file, returns the authorities of Node.js. */
async function firstBundle(files: readonly string[]): Promise<string> {
  for (const file of files) {
    const text = await readFile(file, 'latin1').catch(() => '');
    if (text.includes('BEGIN CERTIFICATE')) {
      return text;
    }
  }
  return rootCertificates.join('\n');
}
