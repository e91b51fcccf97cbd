import { dirname, join, resolve } from 'node:path';
import { authorityFileOf, SITE_FILE } from '../../conf/site.ts';
import { readPemFile } from '../../hadoop/tls/trust-store.ts';
import { readIfThere } from '../../platform/read-if-there.ts';

/**
 * The certificate authorities that this machine trusts beside the default ones and those of Hadoop's truststore: `tls.ca` of the site file
 * in the first of the folders that has one, and NODE_EXTRA_CA_CERTS, which processes of a job do not inherit.
 *
 * @throws TonyError TRUST_STORE_UNREADABLE for `tls.ca`
 */
export async function localAuthorities(folders: readonly string[], environment: NodeJS.ProcessEnv): Promise<string> {
  const file = await authorityFile(folders);
  const ofSite = file === null ? '' : await readPemFile(file);
  const extra = environment.NODE_EXTRA_CA_CERTS;
  // Node.js itself prints a warning about a file that it cannot read.
  return `${ofSite}${extra ? await readPemFile(extra).catch(() => '') : ''}`;
}

/** Mistakes elsewhere in the site file, or one that cannot be read, are reported by commands that need it. */
async function authorityFile(folders: readonly string[]): Promise<string | null> {
  for (const folder of folders) {
    const file = join(folder, SITE_FILE);
    const text = await readIfThere(file).catch(() => null);
    if (text !== null) {
      const named = authorityFileOf(text);
      return named === null ? null : resolve(dirname(file), named);
    }
  }
  return null;
}
