import type { WriteStream } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * Creates a file, lets `write` fill it, and closes it in any case. The file exists before the call to `write`. With `createWriteStream` in
 * Node.js 20, the file may appear after its pipeline has failed, while the caller is already removing the folder.
 */
export async function intoFile(file: string, mode: number, write: (stream: WriteStream) => Promise<void>): Promise<void> {
  const handle = await open(file, 'w', mode);
  try {
    await write(handle.createWriteStream());
  } finally {
    await handle.close();
  }
}
