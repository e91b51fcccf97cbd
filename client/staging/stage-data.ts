import path from 'node:path';
import { joinUri } from '../../storage/uri.ts';
import type { HashedFolder } from '../job/source-archive.ts';
import type { FolderEntry } from '../job/source-folder.ts';
import { sideBySide } from '../terminal/side-by-side.ts';
import { contents, FILE_MODE, FOLDER_MODE, naming, nothing, type Part, type StagingPlace } from './staging.ts';

const UPLOADS_AT_ONCE = 4;

/**
 * Finds an input folder's cached files. Files are uploaded individually, because programs read them directly from storage. `stage` returns
 * the URI of the folder. If the input is a single file, `stage` returns the URI of the file.
 */
export async function findData(place: StagingPlace, name: string, data: HashedFolder, single: boolean): Promise<Part<string>> {
  const { storage, root, onEvent } = place;
  const home = joinUri(root, 'cache', data.hash, name);
  const folders = ['', ...data.entries.filter((entry) => entry.type === 'folder').map((entry) => entry.path)];
  const look = async (): Promise<{ readonly missing: readonly (FolderEntry & { type: 'file' })[]; readonly isThere: boolean }> => {
    const sizes = new Map<string, number>();
    for (const folder of folders) {
      for (const entry of await storage.list(joinUri(home, ...segments(folder)))) {
        if (entry.type === 'file') {
          sizes.set(folder === '' ? entry.name : `${folder}/${entry.name}`, entry.size);
        }
      }
    }
    const missing = data.entries.filter((entry) => entry.type === 'file').filter((file) => sizes.get(file.path) !== file.size);
    return { missing, isThere: missing.length === 0 && sizes.size > 0 };
  };
  const { missing, isThere } = await naming(root, look);
  const only = data.entries[0];
  const expected = single && only !== undefined ? joinUri(home, only.path) : home;
  const total = missing.reduce((sum, file) => sum + file.size, 0);
  const uploadMissing = async (signal: AbortSignal | undefined): Promise<void> => {
    await storage.makeFolder(joinUri(root, 'cache', data.hash), FOLDER_MODE);
    for (const folder of folders) {
      await storage.makeFolder(joinUri(home, ...segments(folder)), FOLDER_MODE);
    }
    const sent = new Map<string, number>();
    // Report that the upload is complete only once, after all files have been uploaded.
    const report = (): void => {
      const bytes = [...sent.values()].reduce((sum, each) => sum + each, 0);
      if (bytes < total) {
        onEvent({ type: 'upload', name, total, sent: bytes });
      }
    };
    report();
    let next = 0;
    const worker = async (signal: AbortSignal): Promise<void> => {
      for (let file = missing[next++]; file !== undefined; file = missing[next++]) {
        const relative = file.path;
        await storage.write(joinUri(home, ...segments(relative)), () => contents(path.join(data.root, relative), signal), {
          permission: FILE_MODE,
          onProgress: (bytes) => {
            sent.set(relative, bytes);
            report();
          },
        });
        sent.set(relative, file.size);
        report();
      }
    };
    await sideBySide((each) => Array.from({ length: UPLOADS_AT_ONCE }, () => worker(each)), signal);
    onEvent({ type: 'upload', name, total, sent: total });
  };
  const stage = async (signal = place.signal): Promise<string> => {
    if (isThere) {
      onEvent({ type: 'unchanged', name, bytes: data.bytes });
    } else {
      await naming(root, () => uploadMissing(signal));
    }
    return expected;
  };
  // The cache does not store a folder without files, so such a folder is never missing.
  const isStaged = async (): Promise<boolean> => (await look()).missing.length === 0;
  return { name, bytes: data.bytes, missing: total, expected, stage, isStaged, discard: nothing };
}

function segments(relative: string): string[] {
  return relative === '' ? [] : relative.split('/');
}
