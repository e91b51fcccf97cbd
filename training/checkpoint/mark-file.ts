import type * as z from 'zod';
import { parseJson } from '../../platform/json-value.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';

/* Small JSON files in a checkpoint folder. */

export function encodeMark(mark: object): Buffer {
  return Buffer.from(`${JSON.stringify(mark)}\n`);
}

/** Resolves with the mark in the file, or null if the file is missing or invalid. */
export async function readMark<T>(storage: Storage, uri: string, schema: z.ZodType<T>): Promise<T | null> {
  const bytes = await readIfStored(storage, uri);
  return schema.safeParse(parseJson(bytes?.toString('utf8') ?? '')).data ?? null;
}
