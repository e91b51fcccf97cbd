import { dirname, join, resolve } from 'node:path';
import { authorityFileOf, SITE_FILE } from '../../conf/site.ts';
import { readPemFile } from '../../hadoop/tls/trust-store.ts';
import { readIfExists } from '../../platform/read-if-exists.ts';

/**
 * The certificate authorities in `tls.ca` of the site file in the first of the folders that has one, as PEM; empty without them.
 *
 * @throws TonyError TRUST_STORE_UNREADABLE
 */
export async function siteAuthorities(folders: readonly string[]): Promise<string> {
  const file = await authorityFile(folders);
  return file === null ? '' : readPemFile(file);
}

/** Those of NODE_EXTRA_CA_CERTS, which processes of a job do not inherit. Node.js itself prints a warning about a file that it cannot read. */
export async function extraAuthorities({ NODE_EXTRA_CA_CERTS: file }: NodeJS.ProcessEnv): Promise<string> {
  return file ? readPemFile(file).catch(() => '') : '';
}

/** Commands that need the site file report other mistakes in it, and an unreadable file. */
async function authorityFile(folders: readonly string[]): Promise<string | null> {
  for (const folder of folders) {
    const file = join(folder, SITE_FILE);
    const text = await readIfExists(file).catch(() => null);
    if (text !== null) {
      const named = authorityFileOf(text);
      return named === null ? null : resolve(dirname(file), named);
    }
  }
  return null;
}
