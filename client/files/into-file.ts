import type { WriteStream } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * Opens a file for `write` to fill, and always closes it afterwards. Opening it first matters: `createWriteStream` may create its file even
 * after the `pipeline` into it has failed (Node 20), in a folder that is just being removed.
 */
export async function intoFile(file: string, mode: number, write: (stream: WriteStream) => Promise<void>): Promise<void> {
  const handle = await open(file, 'w', mode);
  try {
    await write(handle.createWriteStream());
  } finally {
    await handle.close();
  }
}
