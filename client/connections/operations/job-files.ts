import { lstat, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../../platform/errors.ts';
import { downloadFile, downloadFolder, MOST_FILES } from '../../../storage/copy-files.ts';
import type { Entry, Storage } from '../../../storage/storage.ts';
import { joinUri } from '../../../storage/uri.ts';
import type { JobConnection } from '../job-connection.ts';

/** A file that a job has saved. */
export interface SavedFile {
  /** Path below the job's output folder, with `/` as the separator. */
  readonly name: string;
  readonly uri: string;
  readonly bytes: number;
  /** Time of the last modification, in ms since the epoch. */
  readonly modifiedAt: number;
}

/**
 * Lists the files in a job's output folder: models, checkpoints and other files that its programs have saved.
 * @param from file or folder below the output folder. By default, the whole folder
 * @throws TonyError NOT_FOUND if the file or folder does not exist, USAGE for a path that leaves the folder, or a connection error
 */
export async function jobFiles(connection: JobConnection, from = ''): Promise<SavedFile[]> {
  const { storage } = connection.records;
  const found = await findOutput(connection, from);
  const files: SavedFile[] = [];
  const walk = async (entry: Entry, name: string): Promise<void> => {
    if (entry.type === 'file') {
      files.push({ name, uri: entry.uri, bytes: entry.size, modifiedAt: entry.modifiedAt });
      return;
    }
    for (const each of await storage.list(entry.uri)) {
      if (files.length >= MOST_FILES) {
        throw new TonyError('DATA_INVALID', `${found.uri} contains more than ${MOST_FILES} files`);
      }
      await walk(each, name === '' ? each.name : `${name}/${each.name}`);
    }
  };
  await walk(found, segmentsOf(from).join('/'));
  return files;
}

/**
 * Copies a file or folder that a job has saved to this machine. The target appears when all of its files are complete.
 * @param to path that does not exist yet. A file may also go into an existing folder, under its own name
 * @returns the path of the copy, and the number and total length of its files
 * @throws TonyError ALREADY_EXISTS, and as `jobFiles`
 */
export async function copyJobFiles(
  connection: JobConnection,
  from: string,
  to: string,
  signal: AbortSignal,
): Promise<{ readonly path: string; readonly files: number; readonly bytes: number }> {
  const { storage } = connection.records;
  const found = await findOutput(connection, from);
  const target = await freePath(path.resolve(to), found);
  const partial = await mkdtemp(`${target}.partial-`);
  try {
    const copy = path.join(partial, 'copy');
    const copied = await copyTo(storage, found, copy, signal);
    await rename(copy, target);
    return { path: target, files: copied.length, bytes: copied.reduce((sum, { bytes }) => sum + bytes, 0) };
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

async function copyTo(
  storage: Storage,
  { type, uri }: Entry,
  to: string,
  signal: AbortSignal,
): Promise<readonly { readonly bytes: number }[]> {
  return type === 'folder' ? await downloadFolder(storage, uri, to, signal) : [await downloadFile(storage, uri, to, signal)];
}

async function findOutput({ id, outputUri, records: { storage } }: JobConnection, from: string): Promise<Entry> {
  const segments = segmentsOf(from);
  const found = await storage.stat(joinUri(outputUri, ...segments));
  if (found === null) {
    const what = segments.length === 0 ? `${id} has saved no files.` : `${id} has saved no file or folder ${segments.join('/')}.`;
    throw new TonyError('NOT_FOUND', what, {
      hint:
        segments.length === 0
          ? 'Programs save files with `tony.save_output`, or write them to `cluster.outputUri`.'
          : `\`tony-ts files ${id}\` lists its files.`,
    });
  }
  return found;
}

function segmentsOf(from: string): string[] {
  const segments = from.split('/').filter((segment) => segment !== '' && segment !== '.');
  if (segments.includes('..')) {
    throw new TonyError('USAGE', `The path ${from} leaves the output folder of the job.`, {
      hint: 'Pass a path below this folder, such as model.',
    });
  }
  return segments;
}

async function freePath(to: string, { type, name }: Entry): Promise<string> {
  const isFolder = (await stat(to).catch(() => null))?.isDirectory() === true;
  const target = isFolder && type === 'file' ? path.join(to, name) : to;
  if ((await lstat(target).catch(() => null)) !== null) {
    throw new TonyError('ALREADY_EXISTS', `${target} already exists.`, { hint: 'Pass a path that does not exist yet to --to.' });
  }
  return target;
}
