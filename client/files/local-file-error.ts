import { type ErrorCode, fileErrorOf, TonyError } from '../../platform/errors.ts';

const CODES: Readonly<Record<string, ErrorCode>> = {
  EEXIST: 'ALREADY_EXISTS',
  EACCES: 'ACCESS_DENIED',
  EPERM: 'ACCESS_DENIED',
  EROFS: 'ACCESS_DENIED',
  ENOENT: 'STORAGE_DENIED',
  ENOTDIR: 'STORAGE_DENIED',
  EISDIR: 'STORAGE_DENIED',
  ENAMETOOLONG: 'STORAGE_DENIED',
  ELOOP: 'STORAGE_DENIED',
};
const VERBS: Readonly<Record<string, string>> = { mkdir: 'create the folder', open: 'open', rename: 'write', copyfile: 'write' };

/**
 * Converts the refusal of a file system of this machine, such as a missing permission. Returns null for other errors.
 * @param action what failed, such as `write job.yaml`. By default, the error's call and path.
 */
export function localFileError(error: unknown, action?: string, hint?: string): TonyError | null {
  const { code: cause = '', syscall, path } = Object(error) as NodeJS.ErrnoException;
  const code = CODES[cause];
  if (code === undefined || syscall === undefined) {
    return null;
  }
  const what = action ?? `${VERBS[syscall] ?? syscall} ${path === '' ? "''" : (path ?? '')}`.trimEnd();
  return new TonyError(code, `Cannot ${what}: ${fileErrorOf(error)}.`, { cause: error, ...(hint === undefined ? {} : { hint }) });
}
