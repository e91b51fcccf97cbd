import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { FEED_ADDRESS_FILE, type FeedAddress } from '../../protos/feed-protocol.ts';
import { joinUri } from '../../storage/uri.ts';
import { openCluster } from '../cluster/cluster.ts';
import { type ConnectOptions, checkId } from '../connections/connect-job.ts';
import { localPaths } from '../files/local-layout.ts';
import { localRoot } from '../staging/local-folder.ts';

export interface FeedPlace {
  /**
   * Returns the address of the job's feed server, or null if the job does not accept feeds yet.
   * @throws TonyError ACCESS_DENIED for another user's job, HDFS_UNREACHABLE
   */
  read(): Promise<FeedAddress | null>;
  close(): void;
}

export async function openFeedPlace(applicationId: string, options: ConnectOptions): Promise<FeedPlace> {
  if (checkId(applicationId) === 'local') {
    const { job } = localPaths(options.localRoot ?? localRoot(options.environment), applicationId);
    return { read: async () => await missingAsNull(() => readFile(path.join(job, FEED_ADDRESS_FILE))), close: () => {} };
  }
  const { root, storage, ...cluster } = await openCluster(options);
  const uri = joinUri(root, 'jobs', applicationId, FEED_ADDRESS_FILE);
  return { read: async () => await missingAsNull(() => storage.read(uri)), close: () => cluster.close() };
}

async function missingAsNull(read: () => Promise<Buffer>): Promise<FeedAddress | null> {
  try {
    return parseAddress((await read()).toString());
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || (error instanceof TonyError && error.code === 'NOT_FOUND')) {
      return null;
    }
    throw error;
  }
}

/** Parses an address, or returns null if the text is incomplete or damaged. */
function parseAddress(text: string): FeedAddress | null {
  try {
    const address = JSON.parse(text) as Partial<FeedAddress>;
    const { host, port, attempt, token, certificate } = address;
    const isWhole = typeof host === 'string' && Number.isInteger(port) && typeof token === 'string' && typeof certificate === 'string';
    return isWhole && typeof attempt === 'number' ? (address as FeedAddress) : null;
  } catch {
    return null;
  }
}
