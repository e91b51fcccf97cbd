import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { TonyError } from '../conf/errors.ts';
import { CONTAINER_LAYOUT, type Resource } from '../conf/job.ts';
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

/**
 * Whether the root is there; nothing is made.
 *
 * @throws TonyError STAGING_UNWRITABLE when others could have put things there
 */
export async function isStagingThere({ storage, root }: Pick<StagingPlace, 'storage' | 'root'>, user: string): Promise<boolean> {
  return naming(root, async () => {
    const before = await storage.stat(root);
    if (before !== null && (before.owner !== user || (before.permission & 0o022) !== 0)) {
      throw new TonyError(
        'STAGING_UNWRITABLE',
        `The staging folder ${root} belongs to ${before.owner} with mode ${before.permission.toString(8)}: others could change what your job runs.`,
        { hint: `Make it yours alone (mode 700, owner ${user}), or name another place with --staging.` },
      );
    }
    return before !== null;
  });
}

/** Makes the root, private, and sees to it that nobody else could have put things there. */
export async function openStaging(place: StagingPlace, user: string): Promise<void> {
  if (!(await isStagingThere(place, user))) await makeStaging(place);
}

export async function makeStaging({ storage, root }: StagingPlace): Promise<void> {
  await naming(root, () => storage.makeFolder(root, FOLDER_MODE));
}

/** Something that a job needs on the cluster: it was looked for, and nothing of it has been uploaded yet. */
export interface Part<Staged> {
  readonly name: string;
  /** As it lies, or will lie, on the cluster. */
  readonly bytes: number;
  /** Of these, what is to be uploaded. */
  readonly missing: number;
  /** What `stage` will answer; times of what is not there yet are 0. */
  readonly expected: Staged;
  /** Uploads what is missing. */
  stage(): Promise<Staged>;
  /** Forgets what was made ready for uploading. */
  discard(): Promise<void>;
}

/** A folder as an archive that is unpacked under `name` in containers. It is packed when it is not there, since only then its size is known. */
export async function findFolder(place: StagingPlace, name: string, folder: HashedFolder): Promise<Part<Resource>> {
  const { storage, root } = place;
  const home = joinUri(root, 'cache', folder.hash);
  return naming(root, async () => {
    const there = (await storage.list(home)).filter((entry) => entry.name.startsWith(`${name}-`));
    const whole = there.find((entry) => entry.name === archiveName(name, entry.size));
    if (whole !== undefined) return partThere(place, name, whole);
    const packed = await pack(folder, place.signal);
    const file = archiveName(name, packed.size);
    return {
      name,
      bytes: packed.size,
      missing: packed.size,
      expected: archiveResource(name, { uri: joinUri(home, file), size: packed.size, modifiedAt: 0 }),
      stage: () =>
        naming(root, async () => {
          for (const damaged of there) await storage.remove(damaged.uri);
          return archiveResource(name, await upload(place, home, file, packed.file, packed.size, name));
        }).finally(packed.discard),
      discard: packed.discard,
    };
  });
}

/** An archive that is there as a file already, such as a built runtime; `hash` is the sha256 of its bytes. */
export async function findArchive(
  place: StagingPlace,
  name: string,
  archive: { readonly file: string; readonly hash: string; readonly size: number },
): Promise<Part<Resource>> {
  const { root, storage } = place;
  const home = joinUri(root, 'cache', archive.hash);
  return naming(root, async () => {
    const file = `${name}.tar.gz`;
    const uri = joinUri(home, file);
    const there = await storage.stat(uri);
    if (there?.size === archive.size) return partThere(place, name, there);
    return {
      name,
      bytes: archive.size,
      missing: archive.size,
      expected: archiveResource(name, { uri, size: archive.size, modifiedAt: 0 }),
      stage: () => naming(root, async () => archiveResource(name, await upload(place, home, file, archive.file, archive.size, name))),
      discard: nothing,
    };
  });
}

function partThere(place: StagingPlace, name: string, entry: Entry): Part<Resource> {
  const resource = archiveResource(name, entry);
  const stage = async (): Promise<Resource> => {
    place.onEvent({ type: 'unchanged', name, bytes: entry.size });
    return resource;
  };
  return { name, bytes: entry.size, missing: 0, expected: resource, stage, discard: nothing };
}

/** Input data, file by file, so that programs read them straight from storage. Its place is the URI of the folder (or of the single file). */
export async function findData(place: StagingPlace, name: string, data: HashedFolder, single: boolean): Promise<Part<string>> {
  const { storage, root, onEvent } = place;
  const home = joinUri(root, 'cache', data.hash, name);
  const sizes = new Map<string, number>();
  const folders = ['', ...data.entries.filter((entry) => entry.type === 'folder').map((entry) => entry.path)];
  await naming(root, async () => {
    for (const folder of folders) {
      for (const entry of await storage.list(joinUri(home, ...segments(folder)))) {
        if (entry.type === 'file') sizes.set(folder === '' ? entry.name : `${folder}/${entry.name}`, entry.size);
      }
    }
  });
  const missing = data.entries.filter((entry) => entry.type === 'file').filter((file) => sizes.get(file.path) !== file.size);
  const only = data.entries[0];
  const expected = single && only !== undefined ? joinUri(home, only.path) : home;
  const total = missing.reduce((sum, file) => sum + file.size, 0);
  const isThere = missing.length === 0 && sizes.size > 0;
  const uploadMissing = async (): Promise<void> => {
    await storage.makeFolder(joinUri(root, 'cache', data.hash), FOLDER_MODE);
    for (const folder of folders) await storage.makeFolder(joinUri(home, ...segments(folder)), FOLDER_MODE);
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
  };
  const stage = async (): Promise<string> => {
    if (isThere) onEvent({ type: 'unchanged', name, bytes: data.bytes });
    else await naming(root, uploadMissing);
    return expected;
  };
  return { name, bytes: data.bytes, missing: total, expected, stage, discard: nothing };
}

/** What is already where it is wanted: the user's own runtime, or data by a URI. */
export function partElsewhere<T>(name: string, bytes: number, expected: T): Part<T> {
  return { name, bytes, missing: 0, expected, stage: async () => expected, discard: nothing };
}

async function nothing(): Promise<void> {}

interface Packed {
  readonly file: string;
  readonly size: number;
  readonly discard: () => Promise<void>;
}

async function pack(folder: HashedFolder, signal: AbortSignal | undefined): Promise<Packed> {
  const temporary = await mkdtemp(path.join(tmpdir(), 'tony-ts-'));
  const discard = (): Promise<void> => rm(temporary, { recursive: true, force: true });
  try {
    const file = path.join(temporary, 'archive');
    await pipeline(packFolder(folder), createWriteStream(file, { mode: FILE_MODE }), { signal });
    return { file, size: (await stat(file)).size, discard };
  } catch (error) {
    await discard();
    throw error;
  }
}

/** job.json in the job's own folder, as containers get it; `modifiedAt` is 0 before it is there. */
export function jobFile(folder: string, size: number, modifiedAt = 0): Resource {
  return {
    name: CONTAINER_LAYOUT.job,
    uri: joinUri(folder, CONTAINER_LAYOUT.job),
    type: 'file',
    visibility: 'application',
    size,
    timestamp: modifiedAt,
  };
}

/** Makes the job's own folder, and its job.json there. */
export async function stageJob({ root, storage }: StagingPlace, folder: string, frozen: string): Promise<Resource> {
  return naming(root, async () => {
    await storage.makeFolder(folder, FOLDER_MODE);
    const { uri } = jobFile(folder, 0);
    await storage.write(uri, Buffer.from(frozen), { permission: FILE_MODE });
    const { size, modifiedAt } = await entryOf(storage, uri);
    return jobFile(folder, size, modifiedAt);
  });
}

function archiveName(name: string, size: number): string {
  return `${name}-${size}.tar.gz`;
}

function archiveResource(name: string, entry: Pick<Entry, 'uri' | 'size' | 'modifiedAt'>): Resource {
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
