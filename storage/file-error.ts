import { type ErrorCode, messageOf, TonyError } from '../platform/errors.ts';

const CODES: Readonly<Record<string, ErrorCode>> = {
  ENOENT: 'NOT_FOUND',
  ENOTDIR: 'NOT_FOUND',
  EISDIR: 'NOT_FOUND',
  EACCES: 'ACCESS_DENIED',
  EPERM: 'ACCESS_DENIED',
  EROFS: 'ACCESS_DENIED',
  EEXIST: 'ALREADY_EXISTS',
  ENOTEMPTY: 'ALREADY_EXISTS',
  ENOSPC: 'STORAGE_FULL',
  EDQUOT: 'STORAGE_FULL',
};

/**
 * Converts a local file system error to a TonyError.
 * @param message defaults to the error's own message, which usually contains the path
 */
export function fileError(error: unknown, message = messageOf(error)): TonyError {
  return new TonyError(CODES[(error as NodeJS.ErrnoException).code ?? ''] ?? 'STORAGE_DENIED', message, { cause: error });
}
