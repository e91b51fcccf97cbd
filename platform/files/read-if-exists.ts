import { readFile } from 'node:fs/promises';
import { ifMissing } from './if-missing.ts';

/** Reads a local text file. Returns null if the file does not exist, and throws if it cannot be read. */
export async function readIfExists(file: string): Promise<string | null> {
  return readFile(file, 'utf8').catch(ifMissing(null));
}
