import { tmpdir } from 'node:os';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { localFileError } from '../files/local-file-error.ts';

const FULL: readonly unknown[] = ['ENOSPC', 'EDQUOT'];

/** Converts an error that ended the command. Errors without a code are bugs, except for the refusals of a local file system. */
export function thrownError(thrown: unknown): TonyError {
  if (thrown instanceof TonyError) {
    return thrown;
  }
  if (FULL.includes((thrown as NodeJS.ErrnoException | null)?.code)) {
    return new TonyError('STORAGE_FULL', `A disk of this machine is full: ${messageOf(thrown)}.`, {
      hint: `tony-ts writes temporary files to ${tmpdir()} and packed archives to its cache folder, ~/.cache/tony-ts. Free up space there, or set TMPDIR to a folder on another disk.`,
      cause: thrown,
    });
  }
  return localFileError(thrown) ?? new TonyError('INTERNAL', messageOf(thrown), { cause: thrown });
}
