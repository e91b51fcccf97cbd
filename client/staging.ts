import { createReadStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { TonyError } from '../conf/errors.ts';
import { CONTAINER_LAYOUT, type Resource } from '../conf/job.ts';
import type { Entry, Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { intoFile } from './into-file.ts';
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

export const FOLDER_MODE = 0o700;
export const FILE_MODE = 0o600;

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
  /** Uploads what is missing, until the signal: the place's own where none is given. */
  stage(signal?: AbortSignal): Promise<Staged>;
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
      stage: (signal = place.signal) =>
        naming(root, async () => {
          for (const damaged of there) await storage.remove(damaged.uri);
          return archiveResource(name, await upload({ ...place, signal }, home, file, packed.file, packed.size, name));
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
      stage: (signal = place.signal) =>
        naming(root, async () => archiveResource(name, await upload({ ...place, signal }, home, file, archive.file, archive.size, name))),
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

/** What is already where it is wanted: the user's own runtime, or data by a URI. */
export function partElsewhere<T>(name: string, bytes: number, expected: T): Part<T> {
  return { name, bytes, missing: 0, expected, stage: async () => expected, discard: nothing };
}

export async function nothing(): Promise<void> {}

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
    await intoFile(file, FILE_MODE, (stream) => pipeline(packFolder(folder), stream, { signal }));
    return { file, size: (await stat(file)).size, discard };
  } catch (error) {
    await discard();
    // A stream that is aborted says so in words of its own.
    signal?.throwIfAborted();
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

/** A file's bytes, until the signal. */
export async function* contents(file: string, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
    signal?.throwIfAborted();
    yield chunk as Uint8Array;
  }
}

/** What the storage denies is said in terms of the staging folder: the person never named the path that failed. */
export async function naming<T>(root: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof TonyError) || error.code !== 'ACCESS_DENIED') throw error;
    throw new TonyError('STAGING_UNWRITABLE', `The staging folder ${root} cannot be written: ${error.message}`, { cause: error });
  }
}
