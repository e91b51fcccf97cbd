import type { WriteStream } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * Creates a file, calls `write` to fill it, and always closes it. The file exists before `write` is called. In contrast,
 * `createWriteStream` in Node 20 may create the file after its `pipeline` has failed, while the caller is already removing the folder.
 */
export async function intoFile(file: string, mode: number, write: (stream: WriteStream) => Promise<void>): Promise<void> {
  const handle = await open(file, 'w', mode);
  try {
    await write(handle.createWriteStream());
  } finally {
    await handle.close();
  }
}
