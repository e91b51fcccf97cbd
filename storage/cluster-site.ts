import { TonyError } from '../conf/errors.ts';
import { DEFAULT_SITE, parseSite, type Site } from '../conf/site.ts';
import type { Storage } from './storage.ts';
import { joinUri } from './uri.ts';

/** Where the admin's word lies on the cluster itself. */
const PLACE = ['apps', 'tony-ts', 'site.yaml'];

/**
 * What the admin has settled on the cluster itself; the defaults where nothing is there.
 *
 * @param defaultFs e.g. `hdfs://namenode:8020`.
 * @throws TonyError SITE_INVALID with every mistake, or that HDFS cannot be reached
 */
export async function siteOfCluster(storage: Storage, defaultFs: string): Promise<Site> {
  if (!defaultFs.startsWith('hdfs:')) return DEFAULT_SITE;
  const uri = joinUri(defaultFs, ...PLACE);
  try {
    return parseSite((await storage.read(uri)).toString(), uri);
  } catch (error) {
    if (error instanceof TonyError && error.code === 'NOT_FOUND') return DEFAULT_SITE;
    throw error;
  }
}
