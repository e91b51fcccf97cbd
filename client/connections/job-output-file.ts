import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';

/**
 * Reads a file from a job's output folder. Returns null if the file does not exist.
 * @param place describes the file in messages
 * @throws TonyError JOB_FAILED if the file exceeds `maxBytes`
 */
export async function readOutput(storage: Storage, uri: string, maxBytes: number, place = uri): Promise<Buffer | null> {
  const entry = await storage.stat(uri);
  if (entry === null) {
    return null;
  }
  if (entry.size > maxBytes) {
    throw new TonyError('JOB_FAILED', `${place} is ${entry.size} bytes long; the limit is ${maxBytes} bytes.`, {
      hint: 'Return a smaller value, and write large results to a file in the output folder.',
    });
  }
  return storage.read(uri);
}
