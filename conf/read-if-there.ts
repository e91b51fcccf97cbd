import { readFile } from 'node:fs/promises';

/** A text file of this machine; null when there is none. Throws what the file system says when it cannot be read. */
export async function readIfThere(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
}
