import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { rootCertificates } from 'node:tls';

/** Files that contain the operating system's certificate authorities on Debian and Alpine, Red Hat, and SUSE. */
const SYSTEM_BUNDLES = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/ca-bundle.pem'];
/** Contains only the cluster's authorities, because Node.js adds this file to its own authorities. */
const ADDITIONAL = 'cluster-authorities.pem';
/** Contains all authorities, for programs that replace their own authorities with this file. */
const ALL = 'all-authorities.pem';
/** Environment variables that tell OpenSSL, curl, and the Python packages requests and botocore which file contains all authorities. */
const REPLACING = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'];

/**
 * Writes the cluster's certificate authorities to files in the container's folder. Returns the environment variables that make programs
 * trust these authorities, except those that `environment` already sets.
 * @param authorities authorities in PEM format, or an empty string if the cluster does not have its own
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

/** Returns the contents of the first readable file, or the authorities that Node.js includes if none of the files is readable. */
async function firstBundle(files: readonly string[]): Promise<string> {
  for (const file of files) {
    const text = await readFile(file, 'latin1').catch(() => '');
    if (text.includes('BEGIN CERTIFICATE')) {
      return text;
    }
  }
  return rootCertificates.join('\n');
}
