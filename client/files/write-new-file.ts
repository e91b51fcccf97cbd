import { stat, writeFile } from 'node:fs/promises';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { localFileError } from './local-file-error.ts';

/**
 * Writes a new file.
 * @param hint next step for the user if the file exists
 * @throws TonyError ALREADY_EXISTS, ACCESS_DENIED, STORAGE_DENIED
 */
export async function writeNewFile(file: string, text: string, hint: string): Promise<void> {
  try {
    await writeFile(file, text, { flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new TonyError('ALREADY_EXISTS', `${file} already exists.`, { hint });
    }
    throw (
      localFileError(error, `write ${file}`) ??
      new TonyError('STORAGE_DENIED', `Cannot write ${file}: ${fileErrorOf(error)}.`, { cause: error })
    );
  }
}

/** Checks the value of `--to` before a command starts its work. @throws TonyError ALREADY_EXISTS if it is a folder */
export async function refuseFolder(file: string): Promise<void> {
  const found = await stat(file).catch(() => null);
  if (found?.isDirectory()) {
    throw new TonyError('ALREADY_EXISTS', `${file} is a folder.`, { hint: 'Pass the path of a file with --to.' });
  }
}
