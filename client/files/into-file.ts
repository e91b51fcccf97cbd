import type { WriteStream } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * Opens a file, calls `write` to fill it, and always closes it. Unlike `createWriteStream`, it never creates the file late: in Node 20, a
 * stream may create its file after the `pipeline` into it has failed, in a folder that is already being removed.
 */
export async function intoFile(file: string, mode: number, write: (stream: WriteStream) => Promise<void>): Promise<void> {
  const handle = await open(file, 'w', mode);
  try {
    await write(handle.createWriteStream());
  } finally {
    await handle.close();
  }
}
