import { randomBytes } from 'node:crypto';
import { link, rm, writeFile } from 'node:fs/promises';

/**
 * Creates a file and its content in one atomic step, and never replaces an existing file. Writes the content to a temporary file, and then
 * links that file to `path`.
 * @param mode mode of the file, restricted by the umask
 * @returns false if the file already exists
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
