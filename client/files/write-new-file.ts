import { writeFile } from 'node:fs/promises';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';

/**
 * Writes a new file. Never overwrites an existing file.
 * @param hint next step for the user if the file exists
 * @throws TonyError ALREADY_EXISTS, STORAGE_REFUSED
 */
export async function writeNewFile(file: string, text: string, hint: string): Promise<void> {
  try {
    await writeFile(file, text, { flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new TonyError('ALREADY_EXISTS', `${file} already exists.`, { hint });
    }
    throw new TonyError('STORAGE_REFUSED', `Cannot write ${file}: ${fileErrorOf(error)}.`, { cause: error });
  }
}
