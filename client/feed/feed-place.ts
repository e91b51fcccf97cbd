import path from 'node:path';
import * as z from 'zod';
import { readIfExists } from '../../platform/files/read-if-exists.ts';
import { parseJson } from '../../platform/json-value.ts';
import { FEED_ADDRESS_FILE, type FeedAddress } from '../../protos/feed-protocol.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import { joinUri } from '../../storage/uri.ts';
import { openCluster } from '../cluster/cluster.ts';
import { checkId } from '../connections/check-id.ts';
import type { ConnectOptions } from '../connections/connect-job.ts';
import { localPaths } from '../files/local-layout.ts';
import { localRoot } from '../staging/local-folder.ts';

/** The file in a job's staging folder that tells producers and sources how to reach the job. */
export interface FeedPlace {
  /**
   * Returns the address of the job's feed server, or null if the job does not accept feeds yet.
   * @throws TonyError ACCESS_DENIED for another user's job, HDFS_UNREACHABLE
   */
  read(): Promise<FeedAddress | null>;
  close(): void;
}

export async function openFeedPlace(jobId: string, options: ConnectOptions): Promise<FeedPlace> {
  if (checkId(jobId) === 'local') {
    const { job } = localPaths(options.localRoot ?? localRoot(options.env), jobId);
    return { read: async () => parseAddress(await readIfExists(path.join(job, FEED_ADDRESS_FILE))), close: () => {} };
  }
  const { root, storage, ...cluster } = await openCluster(options);
  const uri = joinUri(root, 'jobs', jobId, FEED_ADDRESS_FILE);
  return { read: async () => parseAddress(await readIfStored(storage, uri)), close: () => cluster.close() };
}

const feedAddress = z.object({
  host: z.string(),
  port: z.int(),
  attempt: z.number(),
  token: z.string(),
  certificate: z.string(),
  doors: z.array(z.object({ host: z.string(), port: z.int() })),
});

/** Parses an address, or returns null if the file is missing, incomplete or damaged. */
function parseAddress(content: string | Buffer | null): FeedAddress | null {
  return feedAddress.safeParse(parseJson(content?.toString() ?? '')).data ?? null;
}
