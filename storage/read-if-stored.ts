import { TonyError } from '../platform/errors.ts';
import type { Storage } from './storage.ts';

/** Reads a file. Returns null if the file does not exist. Throws for all other errors. */
export async function readIfStored(storage: Pick<Storage, 'read'>, uri: string): Promise<Buffer | null> {
  try {
    return await storage.read(uri);
  } catch (error) {
    if (error instanceof TonyError && error.code === 'NOT_FOUND') {
      return null;
    }
    throw error;
  }
}
