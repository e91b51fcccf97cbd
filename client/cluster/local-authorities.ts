import { dirname, resolve } from 'node:path';
import { authorityFileOf } from '../../conf/resolve/site.ts';
import { readPemFile } from '../../hadoop/tls/trust-store.ts';
import { localSite } from './site-file.ts';

/**
 * Returns the certificate authorities (PEM) that the local site file specifies in `tls.ca`, or '' if it specifies none.
 * @param folders folders to search for the site file, in this order.
 * @throws TonyError TRUST_STORE_UNREADABLE
 */
export async function siteAuthorities(folders: readonly string[]): Promise<string> {
  const file = await authorityFile(folders);
  return file === null ? '' : readPemFile(file);
}

/**
 * Returns the certificate authorities (PEM) in NODE_EXTRA_CA_CERTS of the user's machine. Ignores an unreadable file, because Node.js prints
 * a warning about it.
 */
export async function extraAuthorities({ NODE_EXTRA_CA_CERTS: file }: NodeJS.ProcessEnv): Promise<string> {
  return file ? readPemFile(file).catch(() => '') : '';
}

/** Ignores an unreadable or invalid site file, because the commands that load it report the problem. */
async function authorityFile(folders: readonly string[]): Promise<string | null> {
  const site = await localSite(folders);
  const named = site === null ? null : authorityFileOf(site.text);
  return site === null || named === null ? null : resolve(dirname(site.file), named);
}
