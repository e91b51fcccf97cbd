import { randomBytes } from 'node:crypto';
import { link, rm, writeFile } from 'node:fs/promises';

/**
 * Makes a file that others read as soon as it is there: by a link to a finished one, which also refuses to replace.
 *
 * @param mode of the file; the umask takes away from it
 * @returns false when there is one already
 */
export async function createWhole(path: string, text: string, mode = 0o666): Promise<boolean> {
  const mine = `${path}-${process.pid}-${randomBytes(4).toString('hex')}`;
  await writeFile(mine, text, { mode });
  try {
    await link(mine, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(mine, { force: true });
  }
}
