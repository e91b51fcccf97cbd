import { dirname, resolve } from 'node:path';
import { authorityFileOf } from '../../conf/site.ts';
import { readPemFile } from '../../hadoop/tls/trust-store.ts';
import { localSite } from './site-file.ts';

/**
 * Returns the certificate authorities (PEM) that the local site file specifies in `tls.ca`; '' if it specifies none.
 * @param folders folders to search for the site file, in this order.
 * @throws TonyError TRUST_STORE_UNREADABLE
 */
export async function siteAuthorities(folders: readonly string[]): Promise<string> {
  const file = await authorityFile(folders);
  return file === null ? '' : readPemFile(file);
}

/**
 * Returns the certificate authorities (PEM) in NODE_EXTRA_CA_CERTS, which is not passed on to the processes of a job. Ignores an unreadable
 * file, because Node.js prints a warning about it.
 */
export async function extraAuthorities({ NODE_EXTRA_CA_CERTS: file }: NodeJS.ProcessEnv): Promise<string> {
  return file ? readPemFile(file).catch(() => '') : '';
}

/** Ignores an unreadable site file and mistakes in it. The commands that load the site file report them. */
async function authorityFile(folders: readonly string[]): Promise<string | null> {
  const site = await localSite(folders);
  const named = site === null ? null : authorityFileOf(site.text);
  return site === null || named === null ? null : resolve(dirname(site.file), named);
}
