import { TonyError } from '../platform/errors.ts';

const CODES: ReadonlySet<string> = new Set(['HDFS_UNREACHABLE', 'HDFS_UNAVAILABLE', 'S3_UNREACHABLE']);

/** Returns true if the storage did not respond, or accepts no changes at present. The same operation may succeed later. */
export function isStorageUnreachable(error: unknown): error is TonyError {
  return error instanceof TonyError && CODES.has(error.code);
}
