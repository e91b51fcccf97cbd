import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates a folder and its missing parents, like `mkdir -p`. Node's `mkdir(path, { recursive: true })` hangs if the file system reports
 * ENOENT for a path in an existing folder, as procfs does.
 * @returns the topmost folder that was created, or undefined if all folders already existed
 */
export async function makeFolders(folder: string, mode?: number): Promise<string | undefined> {
  try {
    await mkdir(folder, { mode });
    return folder;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const above = dirname(folder);
    if (code === 'ENOENT' && above !== folder) {
      // Another process may have created the parent after mkdir failed.
      const made = (await isFolder(above)) ? undefined : await makeFolders(above, mode);
      return (await makeFolder(folder, mode)) ? (made ?? folder) : made;
    }
    // On a read-only file system, mkdir can fail with EROFS even if the folder already exists.
    if (code !== 'ENOENT' && (await isFolder(folder))) {
      return undefined;
    }
    throw error;
  }
}

async function makeFolder(folder: string, mode: number | undefined): Promise<boolean> {
  try {
    await mkdir(folder, { mode });
    return true;
  } catch (error) {
    if (await isFolder(folder)) {
      return false;
    }
    throw error;
  }
}

export async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
