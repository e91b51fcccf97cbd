import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { rootCertificates } from 'node:tls';

/** The authorities that the operating system trusts: Debian and Alpine, Red Hat, SUSE. */
const SYSTEM_BUNDLES = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/ca-bundle.pem'];
/** The file with the cluster's authorities alone: Node.js adds them to its own. */
const ADDITIONAL = 'cluster-authorities.pem';
/** The file with all authorities, for programs that replace their own by the contents of a file. */
const ALL = 'all-authorities.pem';
/** Read by OpenSSL, and thus by Python's ssl module and most programs; by the Python package requests and botocore; and by curl. */
const REPLACING = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'];

/**
 * Writes the cluster's certificate authorities to files in the container's folder. Returns the variables with which programs trust them in
 * their own HTTPS connections, without those that `environment` sets.
 * @param authorities in PEM format; empty if the cluster has none of its own
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

/** Returns the system's authorities or, on a system without such a file, those of Node.js. */
async function firstBundle(files: readonly string[]): Promise<string> {
  for (const file of files) {
    const text = await readFile(file, 'latin1').catch(() => '');
    if (text.includes('BEGIN CERTIFICATE')) {
      return text;
    }
  }
  return rootCertificates.join('\n');
}
