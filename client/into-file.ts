import type { WriteStream } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * Opens a file for `write` to fill, and closes it when that ends, however it does. A `createWriteStream` may still make its file when the
 * `pipeline` into it has failed already (Node 20), so that it comes into a folder which is just being removed.
 */
export async function intoFile(file: string, mode: number, write: (stream: WriteStream) => Promise<void>): Promise<void> {
  const handle = await open(file, 'w', mode);
  try {
    await write(handle.createWriteStream());
  } finally {
    await handle.close();
  }
}
