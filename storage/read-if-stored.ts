import { ifCode } from '../platform/if-code.ts';
import type { Storage } from './storage.ts';

/** Reads a file. Returns null if the file does not exist. Throws for all other errors. */
export async function readIfStored(storage: Pick<Storage, 'read'>, uri: string): Promise<Buffer | null> {
  return storage.read(uri).catch(ifCode('NOT_FOUND', null));
}
