import { randomBytes } from 'node:crypto';
import { link, rm, writeFile } from 'node:fs/promises';

/**
 * Creates a file with its content in one atomic step, and never replaces an existing file. Writes a temporary file, and links it to `path`.
 * @param mode file mode, restricted by the umask.
 * @returns false if the file already exists.
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
