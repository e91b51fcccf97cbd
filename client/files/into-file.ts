import type { WriteStream } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * Creates a file, calls `write` to fill it, and always closes it. Opens the file before calling `write`, because `createWriteStream` in
 * Node.js 20 may otherwise create the file after an error, when the caller is already removing the folder.
 */
export async function intoFile(file: string, mode: number, write: (stream: WriteStream) => Promise<void>): Promise<void> {
  const handle = await open(file, 'w', mode);
  try {
    await write(handle.createWriteStream());
  } finally {
    await handle.close();
  }
}
