import { isOver } from '../../conf/status/job-info.ts';
import { pause } from '../../platform/async/backoff.ts';
import { TonyError } from '../../platform/errors.ts';
import type { FeedAddress } from '../../protos/feed-protocol.ts';
import { type ConnectOptions, connectJob } from '../connections/connect-job.ts';
import { openFeedPlace } from './feed-place.ts';

const POLL_MS = 500;

/** How a program on the network reaches the executors that receive partitions. */
export type FeedDoors = Pick<FeedAddress, 'doors' | 'token' | 'certificate'>;

/**
 * Waits until a program of the job reads a feed, and returns the doors of the job's executors for sources.
 * @throws TonyError FEED_ENDED if the job ends before that, JOB_NOT_FOUND, ACCESS_DENIED
 */
export async function findFeedDoors(jobId: string, options: ConnectOptions, signal: AbortSignal): Promise<FeedDoors> {
  const connection = await connectJob(jobId, options);
  try {
    const place = await openFeedPlace(jobId, options);
    try {
      for (;;) {
        const address = await place.read();
        if (address !== null && address.doors.length > 0) {
          const { doors, token, certificate } = address;
          return { doors, token, certificate };
        }
        const job = await connection.observe();
        if (isOver(job)) {
          throw new TonyError('FEED_ENDED', `${jobId} has ended: ${job.state}${job.message === '' ? '' : `: ${job.message}`}`);
        }
        await pause(POLL_MS, signal);
        signal.throwIfAborted();
      }
    } finally {
      place.close();
    }
  } finally {
    connection.close();
  }
}
