import type { Entry, Storage } from '../../storage/storage.ts';

/**
 * Yields all files and folders below a folder, including unfinished files. Yields each folder before its contents. Does not follow links.
 */
export async function* entriesBelow(storage: Storage, folder: string): AsyncGenerator<Entry> {
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    for (const entry of await storage.list(next, { raw: true })) {
      if (entry.type === 'folder') {
        folders.push(entry.uri);
      }
      yield entry;
    }
  }
}
