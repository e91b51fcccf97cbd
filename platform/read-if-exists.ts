import { readFile } from 'node:fs/promises';

/** Reads a local text file; returns null when it does not exist. Throws the file system's error when it cannot be read. */
export async function readIfExists(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      return null;
    }
    throw error;
  }
}
