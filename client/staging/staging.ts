import { createReadStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Secret } from '../../platform/secret.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { joinUri, parseUri } from '../../storage/uri.ts';
import { intoFile } from '../files/into-file.ts';
import { type HashedFolder, packFolder } from '../job/source-archive.ts';

/*
 * Layout of the staging root. Paths in the cache contain a hash of the content, so that the same content is uploaded only once.
 *
 *   <root>/cache/<sha256>/<name>-<size>.tar.gz     archive of a folder; the size in the name shows whether the archive is complete
 *   <root>/cache/<sha256>/<file>                   single file, or an archive that job.yaml lists
 *   <root>/cache/<sha256>/<name>/...               input data as separate files
 *   <root>/cache/.<sha256>-<ms>.<random>.writing   folder that a prune is removing (cache/prune-cache.ts)
 *   <root>/nodes.json                               what `doctor --probe` found on the nodes (cluster/node-record.ts)
 *   <root>/cache-pruned                              its modification time is the time of the last prune by a submission
 *   <root>/jobs/<application id>/                  job.json, the keytab and the state of the ApplicationMaster, until the job ends
 *   <root>/history/<application id>/               history of the job, kept after the job ends
 *
 * Folders have mode 0700, files 0600. NodeManagers read the files as the user who submitted the job.
 */

export const FOLDER_MODE = 0o700;
export const FILE_MODE = 0o600;

export type StagingEvent =
  /** `bytes` is the size of the file or folder on the cluster. */
  | { readonly type: 'unchanged'; readonly name: string; readonly bytes: number }
  /** Reported when an upload starts (`sent` is 0), while it is in progress, and when it ends (`sent` equals `total`). */
  | { readonly type: 'upload'; readonly name: string; readonly sent: number; readonly total: number };

export interface StagingPlace {
  readonly storage: Storage;
  /** URI of the staging root. */
  readonly root: string;
  readonly onEvent: (event: StagingEvent) => void;
  /** Aborting this signal cancels uploads and removes their partial files. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Returns true if the staging root exists.
 * @throws TonyError STAGING_UNWRITABLE if other users can write to the staging root
 */
export async function isStagingThere({ storage, root }: Pick<StagingPlace, 'storage' | 'root'>, user: string): Promise<boolean> {
  return naming(root, async () => {
    const before = await storage.stat(root);
    if (before !== null && (before.owner !== user || (before.permission & 0o022) !== 0)) {
      throw new TonyError(
        'STAGING_UNWRITABLE',
        `The staging folder ${root} belongs to ${before.owner} with mode ${before.permission.toString(8)}: other users could change the programs that your job runs.`,
        { hint: `Make it private (mode 700, owner ${user}), or choose another folder with --staging.` },
      );
    }
    return before !== null;
  });
}

/**
 * Rejects a staging root on the local disk, which nodes cannot read.
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function refuseLocalStaging(root: string): void {
  if (parseUri(root).scheme === 'file') {
    throw new TonyError(
      'HADOOP_CONF_INVALID',
      `The staging folder ${root} is on this machine's disk, which the cluster's nodes cannot read.`,
      {
        hint: 'Set fs.defaultFS in core-site.xml of HADOOP_CONF_DIR to the file system of the cluster, such as hdfs://namenode:8020, or choose a folder on HDFS with --staging.',
      },
    );
  }
}

/** Creates the private staging root. If the staging root already exists, verifies that other users cannot write to it. */
export async function openStaging(place: StagingPlace, user: string): Promise<void> {
  if (!(await isStagingThere(place, user))) {
    await makeStaging(place);
  }
}

export async function makeStaging({ storage, root }: StagingPlace): Promise<void> {
  try {
    await naming(root, () => storage.makeFolder(root, FOLDER_MODE));
  } catch (error) {
    const above = root.replace(/\/[^/]+\/*$/, '');
    if (!isTonyError(error, 'STAGING_UNWRITABLE') || (await storage.stat(above).catch(() => null)) !== null) {
      throw error;
    }
    const { pathname } = new URL(above);
    throw new TonyError('STAGING_UNWRITABLE', `Cannot create the staging folder ${root}: ${above} does not exist.`, {
      hint: `Ask the cluster admin to create it (hdfs dfs -mkdir -p ${pathname}; hdfs dfs -chown USER ${pathname}), or choose another folder with --staging.`,
      cause: error,
    });
  }
}

function isTonyError(error: unknown, code: TonyError['code']): error is TonyError {
  return error instanceof TonyError && error.code === code;
}

/** File or folder that a job needs on the cluster. If the cache does not contain it, `stage` uploads it. */
export interface Part<Staged> {
  readonly name: string;
  readonly bytes: number;
  /** Number of bytes to upload. */
  readonly missing: number;
  /** Expected result of `stage`. Files that do not exist yet have a timestamp of 0. */
  readonly expected: Staged;
  /** Uploads the missing files. `signal` defaults to `StagingPlace.signal`. */
  stage(signal?: AbortSignal): Promise<Staged>;
  /** Returns true if the staged files still exist. They may be missing because `tony-ts cache prune` ran at the same time. */
  isStaged(staged: Staged): Promise<boolean>;
  discard(): Promise<void>;
}

/** Returns true if the file still has the resource's size and modification time. YARN rejects a file with a different modification time. */
export async function isResourceThere(storage: Storage, { uri, size, timestamp }: LocalResource): Promise<boolean> {
  const there = await storage.stat(uri);
  return there?.size === size && there.modifiedAt === timestamp;
}

/**
 * Finds a folder's cached archive. If the cache contains none, packs the folder to determine the archive size. Containers unpack the
 * archive in a folder called `name`.
 */
export async function findFolder(place: StagingPlace, name: string, folder: HashedFolder): Promise<Part<LocalResource>> {
  const { storage, root } = place;
  const home = joinUri(root, 'cache', folder.hash);
  return naming(root, async () => {
    const there = (await storage.list(home)).filter((entry) => entry.name.startsWith(`${name}-`));
    const whole = there.find((entry) => entry.name === archiveName(name, entry.size));
    if (whole !== undefined) {
      return partThere(place, name, whole);
    }
    const packed = await pack(folder, place.signal);
    const file = archiveName(name, packed.size);
    return {
      name,
      bytes: packed.size,
      missing: packed.size,
      expected: archiveResource(name, { uri: joinUri(home, file), size: packed.size, modifiedAt: 0 }),
      stage: (signal = place.signal) =>
        naming(root, async () => {
          for (const damaged of there) {
            await storage.remove(damaged.uri);
          }
          return archiveResource(name, await upload({ ...place, signal }, home, file, packed.file, packed.size, name));
        }).finally(packed.discard),
      isStaged: (staged) => isResourceThere(storage, staged),
      discard: packed.discard,
    };
  });
}

/**
 * Finds the cached copy of a local archive, such as a built runtime.
 * @param archive.hash SHA-256 of the archive
 */
export async function findArchive(place: StagingPlace, name: string, archive: LocalFile): Promise<Part<LocalResource>> {
  return findFile(place, name, archive, { type: 'archive', storedAs: `${name}.tar.gz` });
}

export interface LocalFile {
  readonly file: string;
  /** SHA-256 of the content. */
  readonly hash: string;
  readonly size: number;
}

/**
 * Finds the cached copy of a local file. `storedAs` is the file name on storage. NodeManagers use this name to recognise the archive
 * format.
 */
export async function findFile(
  place: StagingPlace,
  name: string,
  { file, hash, size }: LocalFile,
  { type, storedAs }: { readonly type: LocalResource['type']; readonly storedAs: string },
): Promise<Part<LocalResource>> {
  const { root, storage } = place;
  const home = joinUri(root, 'cache', hash);
  return naming(root, async () => {
    const uri = joinUri(home, storedAs);
    const there = await storage.stat(uri);
    if (there?.size === size) {
      return partThere(place, name, there, type);
    }
    return {
      name,
      bytes: size,
      missing: size,
      expected: { ...archiveResource(name, { uri, size, modifiedAt: 0 }), type },
      stage: (signal = place.signal) =>
        naming(root, async () => ({
          ...archiveResource(name, await upload({ ...place, signal }, home, storedAs, file, size, name)),
          type,
        })),
      isStaged: (staged) => isResourceThere(storage, staged),
      discard: nothing,
    };
  });
}

function partThere(place: StagingPlace, name: string, entry: Entry, type: LocalResource['type'] = 'archive'): Part<LocalResource> {
  const resource: LocalResource = { ...archiveResource(name, entry), type };
  const stage = async (): Promise<LocalResource> => {
    place.onEvent({ type: 'unchanged', name, bytes: entry.size });
    return resource;
  };
  const isStaged = (staged: LocalResource): Promise<boolean> => isResourceThere(place.storage, staged);
  return { name, bytes: entry.size, missing: 0, expected: resource, stage, isStaged, discard: nothing };
}

export function removedFromCache(names: readonly string[]): TonyError {
  return new TonyError('STAGING_UNWRITABLE', `Files on the cluster were removed or modified during the submission: ${names.join(', ')}.`, {
    hint: 'Submit the job again. tony-ts then uploads missing files and uses the new versions of modified files.',
  });
}

/** Returns a part that does not need to be uploaded, such as a runtime to which job.yaml refers by URI. */
export function presentPart<T>(name: string, bytes: number, expected: T, isStaged: (staged: T) => Promise<boolean>): Part<T> {
  return { name, bytes, missing: 0, expected, stage: async () => expected, isStaged, discard: nothing };
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
    // Throw the abort reason instead of the stream's error.
    signal?.throwIfAborted();
    throw error;
  }
}

/** Describes job.json as a resource for containers. `modifiedAt` is 0 before the upload. */
export function jobFile(folder: string, size: number, modifiedAt = 0): LocalResource {
  return {
    name: CONTAINER_LAYOUT.job,
    uri: joinUri(folder, CONTAINER_LAYOUT.job),
    type: 'file',
    visibility: 'application',
    size,
    timestamp: modifiedAt,
  };
}

/** Creates the job's staging folder and writes job.json. */
export async function stageJob({ root, storage }: StagingPlace, folder: string, frozen: string): Promise<LocalResource> {
  return naming(root, async () => {
    await storage.makeFolder(folder, FOLDER_MODE);
    const { uri } = jobFile(folder, 0);
    await storage.write(uri, Buffer.from(frozen), { permission: FILE_MODE });
    const { size, modifiedAt } = await entryOf(storage, uri);
    return jobFile(folder, size, modifiedAt);
  });
}

/** Writes a job's keytab to the job's folder, which must exist. Only the user can read the file. */
export async function stageKeytab({ root, storage }: StagingPlace, folder: string, content: Secret): Promise<LocalResource> {
  return naming(root, async () => {
    const { uri } = keytabFile(folder, 0);
    await storage.write(uri, Buffer.from(content.reveal()), { permission: FILE_MODE });
    const { size, modifiedAt } = await entryOf(storage, uri);
    return keytabFile(folder, size, modifiedAt);
  });
}

/** Describes the keytab as a resource for the ApplicationMaster. */
export function keytabFile(folder: string, size: number, timestamp = 0): LocalResource {
  const name = CONTAINER_LAYOUT.keytab;
  return { name, uri: joinUri(folder, name), type: 'file', visibility: 'application', size, timestamp };
}

function archiveName(name: string, size: number): string {
  return `${name}-${size}.tar.gz`;
}

function archiveResource(name: string, entry: Pick<Entry, 'uri' | 'size' | 'modifiedAt'>): LocalResource {
  return { name, uri: entry.uri, type: 'archive', visibility: 'private', size: entry.size, timestamp: entry.modifiedAt };
}

async function upload(place: StagingPlace, home: string, name: string, file: string, total: number, label: string): Promise<Entry> {
  const { storage, onEvent } = place;
  const uri = joinUri(home, name);
  await storage.makeFolder(home, FOLDER_MODE);
  // Replace an incomplete archive. Keep a complete archive, because a concurrent submission may have uploaded it. YARN rejects an archive
  // whose modification time changes after the job has been submitted.
  const there = await storage.stat(uri);
  if (there !== null && there.size !== total) {
    await storage.remove(uri);
  }
  onEvent({ type: 'upload', name: label, sent: 0, total });
  await storage.write(uri, () => contents(file, place.signal), {
    ifAbsent: true,
    permission: FILE_MODE,
    onProgress: (sent) => sent < total && onEvent({ type: 'upload', name: label, sent, total }),
  });
  onEvent({ type: 'upload', name: label, sent: total, total });
  return entryOf(storage, uri);
}

async function entryOf(storage: Storage, uri: string): Promise<Entry> {
  const entry = await storage.stat(uri);
  if (entry === null) {
    throw new TonyError('STAGING_UNWRITABLE', `${uri} disappeared after the upload: another program removes files from this folder.`);
  }
  return entry;
}

export async function* contents(file: string, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
    signal?.throwIfAborted();
    yield chunk as Uint8Array;
  }
}

/**
 * Runs `action`, and converts access errors to STAGING_UNWRITABLE. The messages of STAGING_UNWRITABLE and STORAGE_FULL name the staging
 * root, because users do not know the paths of the files within it.
 */
export async function naming<T>(root: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (isTonyError(error, 'STORAGE_FULL')) {
      throw new TonyError('STORAGE_FULL', `There is no room for the job's files in the staging folder ${root}: ${messageOf(error)}`, {
        cause: error,
      });
    }
    if (!(error instanceof TonyError) || error.code !== 'ACCESS_DENIED') {
      throw error;
    }
    throw new TonyError('STAGING_UNWRITABLE', `Cannot write to the staging folder ${root}: ${error.message}`, { cause: error });
  }
}
