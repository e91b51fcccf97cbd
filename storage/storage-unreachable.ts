import { TonyError } from '../platform/errors.ts';

/** Returns true if the storage did not respond. The same operation may succeed later. */
export function isStorageUnreachable(error: unknown): error is TonyError {
  return error instanceof TonyError && (error.code === 'HDFS_UNREACHABLE' || error.code === 'S3_UNREACHABLE');
}
