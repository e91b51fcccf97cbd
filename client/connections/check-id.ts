import { TonyError } from '../../platform/errors.ts';
import { isLocalId } from '../files/local-layout.ts';

/**
 * Returns whether the job with this ID is a local job or runs on a cluster.
 * @throws TonyError USAGE for an invalid ID
 */
export function checkId(jobId: string): 'local' | 'cluster' {
  if (isLocalId(jobId)) {
    return 'local';
  }
  if (/^application_\d+_\d{4,}$/.test(jobId)) {
    return 'cluster';
  }
  throw new TonyError('USAGE', `"${jobId}" is not a job ID.`, {
    hint: 'Use the form application_1795225023264_0001, or local_1795225023264_0001 for a local job.',
  });
}
