import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { TonyError } from '../conf/errors.ts';
import type { Resource } from '../conf/job.ts';
import type { Entry, Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { type HashedFolder, packFolder } from './source-archive.ts';

/*
 * What is staged lies under the hash of its content, so that equal things are uploaded once:
 *
 *   <root>/cache/<sha256>/<name>-<size>.tar.gz   a folder; the size in its name tells a damaged archive from a whole one
 *   <root>/cache/<sha256>/<file>                 a file that is hashed itself
 *   <root>/cache/<sha256>/<name>/...             a data folder, file by file
 *   <root>/jobs/<application id>/                job.json, and what the ApplicationMaster keeps while the job lives
 *   <root>/history/<application id>/             what stays
 *
 * All private: folders 0700, files 0600. The NodeManagers fetch as the user.
 */

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const UPLOADS_AT_ONCE = 4;

export type StagingEvent =
  /** `bytes` is what lies in the cluster. */
  | { readonly type: 'unchanged'; readonly name: string; readonly bytes: number }
  /** Once with `sent` 0, then as it goes, once with `sent` = `total`. */
  | { readonly type: 'upload'; readonly name: string; readonly sent: number; readonly total: number };

export interface StagingPlace {
  readonly storage: Storage;
  /** URI of the staging root. */
  readonly root: string;
  readonly onEvent: (event: StagingEvent) => void;
  /** Ends uploads; what was begun leaves nothing behind. */
  readonly signal?: AbortSignal | undefined;
}

/** Makes the root, private, and sees to it that nobody else could have put things there. */
export async function openStaging({ storage, root }: StagingPlace, user: string): Promise<void> {
  await naming(root, async () => {
    const before = await storage.stat(root);
    if (before === null) await storage.makeFolder(root, FOLDER_MODE);
    else if (before.owner !== user || (before.permission & 0o022) !== 0) {
      throw new TonyError(
        'STAGING_UNWRITABLE',
        `The staging folder ${root} belongs to ${before.owner} with mode ${before.permission.toString(8)}: others could change what your job runs.`,
        { hint: `Make it yours alone (mode 700, owner ${user}), or name another place with --staging.` },
      );
    }
  });
}

/** A folder as an archive that is unpacked under `name` in containers. */
export async function stageFolder(place: StagingPlace, name: string, folder: HashedFolder): Promise<Resource> {
  const { storage, root, onEvent } = place;
  const home = joinUri(root, 'cache', folder.hash);
  return naming(root, async () => {
    const there = (await storage.list(home)).filter((entry) => entry.name.startsWith(`${name}-`));
    const whole = there.find((entry) => entry.name === archiveName(name, entry.size));
    if (whole !== undefined) {
      onEvent({ type: 'unchanged', name, bytes: whole.size });
      return archiveResource(name, whole);
    }
    for (const damaged of there) await storage.remove(damaged.uri);
    const temporary = await mkdtemp(path.join(tmpdir(), 'tony-ts-'));
    try {
      const packed = path.join(temporary, 'archive');
      await pipeline(packFolder(folder), createWriteStream(packed, { mode: FILE_MODE }), { signal: place.signal });
      const { size } = await stat(packed);
      return archiveResource(name, await upload(place, home, archiveName(name, size), packed, size, name));
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  });
}

/** An archive that is there as a file already, such as a built runtime; `hash` is the sha256 of its bytes. */
export async function stageArchive(
  place: StagingPlace,
  name: string,
  archive: { readonly file: string; readonly hash: string; readonly size: number },
): Promise<Resource> {
  const home = joinUri(place.root, 'cache', archive.hash);
  return naming(place.root, async () => {
    const file = `${name}.tar.gz`;
    const there = await place.storage.stat(joinUri(home, file));
    if (there?.size === archive.size) {
      place.onEvent({ type: 'unchanged', name, bytes: there.size });
      return archiveResource(name, there);
    }
    return archiveResource(name, await upload(place, home, file, archive.file, archive.size, name));
  });
}

/** Input data, file by file, so that programs read them straight from storage. Answers the URI of the folder (or of the single file). */
export async function stageData(place: StagingPlace, name: string, data: HashedFolder, single: boolean): Promise<string> {
  const { storage, root, onEvent } = place;
  const home = joinUri(root, 'cache', data.hash, name);
  await naming(root, async () => {
    const sizes = new Map<string, number>();
    const folders = ['', ...data.entries.filter((entry) => entry.type === 'folder').map((entry) => entry.path)];
    for (const folder of folders) {
      for (const entry of await storage.list(joinUri(home, ...segments(folder)))) {
        if (entry.type === 'file') sizes.set(folder === '' ? entry.name : `${folder}/${entry.name}`, entry.size);
      }
    }
    const missing = data.entries.filter((entry) => entry.type === 'file').filter((file) => sizes.get(file.path) !== file.size);
    if (missing.length === 0 && sizes.size > 0) {
      onEvent({ type: 'unchanged', name, bytes: data.bytes });
      return;
    }
    await storage.makeFolder(joinUri(root, 'cache', data.hash), FOLDER_MODE);
    for (const folder of folders) await storage.makeFolder(joinUri(home, ...segments(folder)), FOLDER_MODE);
    const total = missing.reduce((sum, file) => sum + file.size, 0);
    const sent = new Map<string, number>();
    // That all is sent is said once, when all of it is in its place.
    const report = (): void => {
      const bytes = [...sent.values()].reduce((sum, each) => sum + each, 0);
      if (bytes < total) onEvent({ type: 'upload', name, total, sent: bytes });
    };
    report();
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let file = missing[next++]; file !== undefined; file = missing[next++]) {
        const relative = file.path;
        await storage.write(joinUri(home, ...segments(relative)), contents(path.join(data.root, relative), place.signal), {
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
    await Promise.all(Array.from({ length: UPLOADS_AT_ONCE }, worker));
    onEvent({ type: 'upload', name, total, sent: total });
  });
  const only = data.entries[0];
  return single && only !== undefined ? joinUri(home, only.path) : home;
}

/** The job's own folder with its job.json; answers the folder's URI. */
export async function stageJob(
  place: StagingPlace,
  applicationId: string,
  frozen: string,
): Promise<{ folder: string; resource: Resource }> {
  const folder = joinUri(place.root, 'jobs', applicationId);
  return naming(place.root, async () => {
    await place.storage.makeFolder(folder, FOLDER_MODE);
    const uri = joinUri(folder, 'job.json');
    await place.storage.write(uri, Buffer.from(frozen), { permission: FILE_MODE });
    const entry = await entryOf(place.storage, uri);
    return {
      folder,
      resource: { name: 'job.json', uri, type: 'file', visibility: 'application', size: entry.size, timestamp: entry.modifiedAt },
    };
  });
}

function archiveName(name: string, size: number): string {
  return `${name}-${size}.tar.gz`;
}

function archiveResource(name: string, entry: Entry): Resource {
  return { name, uri: entry.uri, type: 'archive', visibility: 'private', size: entry.size, timestamp: entry.modifiedAt };
}

async function upload(place: StagingPlace, home: string, name: string, file: string, total: number, label: string): Promise<Entry> {
  const { storage, onEvent } = place;
  const uri = joinUri(home, name);
  await storage.makeFolder(home, FOLDER_MODE);
  // A damaged one of the same name has to go; a whole one that another submit has just put there has to stay: YARN compares times.
  const there = await storage.stat(uri);
  if (there !== null && there.size !== total) await storage.remove(uri);
  onEvent({ type: 'upload', name: label, sent: 0, total });
  await storage.write(uri, contents(file, place.signal), {
    ifAbsent: true,
    permission: FILE_MODE,
    onProgress: (sent) => sent < total && onEvent({ type: 'upload', name: label, sent, total }),
  });
  onEvent({ type: 'upload', name: label, sent: total, total });
  return entryOf(storage, uri);
}

async function entryOf(storage: Storage, uri: string): Promise<Entry> {
  const entry = await storage.stat(uri);
  if (entry === null) throw new TonyError('STAGING_UNWRITABLE', `${uri} was written and is gone: something else cleans that folder.`);
  return entry;
}

async function* contents(file: string, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
    signal?.throwIfAborted();
    yield chunk as Uint8Array;
  }
}

function segments(relative: string): string[] {
  return relative === '' ? [] : relative.split('/');
}

/** What the storage denies is said in terms of the staging folder: the person never named the path that failed. */
async function naming<T>(root: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof TonyError) || error.code !== 'ACCESS_DENIED') throw error;
    throw new TonyError('STAGING_UNWRITABLE', `The staging folder ${root} cannot be written: ${error.message}`, { cause: error });
  }
}
