import { dirname, resolve } from 'node:path';
import { authorityFileOf } from '../../conf/resolve/site.ts';
import { readPemFile } from '../../hadoop/tls/trust-store.ts';
import { localSite } from './site-file.ts';

/**
 * Returns the certificate authorities (PEM) from the file that `tls.ca` names in the local site file, or '' if `tls.ca` is not set.
 * @param folders folders to search for the site file, in this order.
 * @throws TonyError TRUST_STORE_UNREADABLE
 */
export async function siteAuthorities(folders: readonly string[]): Promise<string> {
  const file = await authorityFile(folders);
  return file === null ? '' : readPemFile(file);
}

/**
 * Returns the certificate authorities (PEM) in the file that NODE_EXTRA_CA_CERTS names. Ignores an unreadable file, because Node.js already
 * warns about it.
 */
export async function extraAuthorities({ NODE_EXTRA_CA_CERTS: file }: NodeJS.ProcessEnv): Promise<string> {
  return file ? readPemFile(file).catch(() => '') : '';
}

/** The commands that load the site file report an unreadable or invalid file, so this function ignores it. */
async function authorityFile(folders: readonly string[]): Promise<string | null> {
  const site = await localSite(folders);
  const named = site === null ? null : authorityFileOf(site.text);
  return site === null || named === null ? null : resolve(dirname(site.file), named);
}
