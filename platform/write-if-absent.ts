import { randomBytes } from 'node:crypto';
import { link, rm, writeFile } from 'node:fs/promises';

/**
 * Creates a file with its complete content in one atomic step: writes a temporary file and links it to `path`. Never replaces an existing
 * file.
 *
 * @param mode mode of the file, restricted by the umask.
 * @returns false when the file exists.
 */
export async function writeIfAbsent(path: string, text: string, mode = 0o666): Promise<boolean> {
  const mine = `${path}-${process.pid}-${randomBytes(4).toString('hex')}`;
  await writeFile(mine, text, { mode });
  try {
    await link(mine, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      return false;
    }
    throw error;
  } finally {
    await rm(mine, { force: true });
  }
}
