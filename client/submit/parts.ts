import { stat } from 'node:fs/promises';
import { CONTAINER_LAYOUT, type Job } from '../../conf/job.ts';
import { isUri } from '../../conf/values/is-uri.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { allOf } from '../../platform/async/all-of.ts';
import { TonyError } from '../../platform/errors.ts';
import { placeUri } from '../files/place-uri.ts';
import { bundlesFolder } from '../job/bundles.ts';
import { type ByRole, findJobFiles, findPythonArchive, type JobFile, mapRoles } from '../job/job-files.ts';
import { type HashedFolder, hashFolder } from '../job/source-archive.ts';
import { listData, listFolder, listSource } from '../job/source-folder.ts';
import { bringsTensorBoard } from '../job/tensorboard-role.ts';
import type { PythonNeeds } from '../plan/python-nodes.ts';
import type { Environment } from '../python/ensure-environment.ts';
import type { TensorBoardArchive } from '../python/ensure-tensorboard.ts';
import type { Runtime } from '../runtime/ensure-runtime.ts';
import { whyNotPublic } from '../staging/public-file.ts';
import { findData } from '../staging/stage-data.ts';
import { findJobFile } from '../staging/stage-file.ts';
import {
  findArchive,
  findFolder,
  isResourceThere,
  type Part,
  presentPart,
  removedFromCache,
  type StagingPlace,
} from '../staging/staging.ts';
import { sideBySide } from '../terminal/side-by-side.ts';

// Functions that build parts of a job from npm and PyPI packages. To save time, each function loads its build code only if the job needs
// the part.

/** Returns the runtime for a job that sets `runtime: default` or `runtime: gpu`. */
export async function runtimeFor(job: Job, onProgress: (line: string) => void, where: { readonly isLocal: boolean }): Promise<Runtime> {
  const { runtimeForJob } = await import('../runtime/runtime-for-job.ts');
  return runtimeForJob(job, onProgress, where);
}

/** Returns TensorBoard, or null if the job does not run TensorBoard or the build fails. */
export async function tensorBoardFor(job: Job, onProgress: (line: string) => void): Promise<TensorBoardArchive | null> {
  if (!bringsTensorBoard(job)) {
    return null;
  }
  const { tensorBoardForJob } = await import('../python/tensorboard-for-job.ts');
  return tensorBoardForJob(onProgress);
}

/** Returns the job's Python environment, or null if the job uses the Python that is installed on the nodes. */
export async function environmentFor({ python }: Job, onProgress: (line: string) => void): Promise<JobFile | Environment | null> {
  if (python.type === 'archive') {
    return findPythonArchive(python);
  }
  if (python.type === 'system') {
    return null;
  }
  const { ensureEnvironment } = await import('../python/ensure-environment.ts');
  return ensureEnvironment(python, onProgress);
}

interface BuiltArchive {
  readonly file: string;
  readonly hash: string;
  readonly size: number;
}

interface BuiltEnvironment extends BuiltArchive {
  readonly needs: PythonNeeds;
}

interface DataPart {
  readonly name: string;
  /** URI if the data is already on storage, or else the local folder to upload. */
  readonly from: string | { readonly folder: HashedFolder; readonly single: boolean };
}

/** Local files that a job needs both on a cluster and on this machine. */
export interface SourceParts {
  readonly source: HashedFolder | null;
  readonly bundles: HashedFolder;
  readonly files: ByRole<JobFile>;
}

export interface LocalParts extends SourceParts {
  readonly runtime: BuiltArchive | null;
  readonly tensorboard: BuiltArchive | null;
  readonly pythonEnvironment: BuiltEnvironment | JobFile | null;
  readonly data: readonly DataPart[];
}

export async function findSourceParts(job: Job): Promise<SourceParts> {
  const [source, bundles] = await Promise.all([
    job.source && listSource(job.source.path, job.source.exclude).then((listing) => hashFolder(listing, { portable: true })),
    hashedBundles(),
  ]);
  return { source, bundles, files: await findJobFiles(job, source) };
}

/** Finds all local files. Called before the first upload, so that nothing has been uploaded if a folder is missing. */
export async function findLocalParts(job: Job, onProgress: (line: string) => void): Promise<LocalParts> {
  const [parts, data] = await Promise.all([
    findSourceParts(job),
    Promise.all(Object.entries(job.data).map(([name, from]) => dataPart(name, from))),
  ]);
  // Build one archive after the other, so that their progress messages do not mix.
  return {
    ...parts,
    data,
    runtime: job.runtime === 'default' || job.runtime === 'gpu' ? archiveOf(await runtimeFor(job, onProgress, { isLocal: false })) : null,
    tensorboard: archiveOf(await tensorBoardFor(job, onProgress)),
    pythonEnvironment: environmentPart(await environmentFor(job, onProgress)),
  };
}

/** Hashes the folder that contains the bundles for containers. */
export async function hashedBundles(): Promise<HashedFolder> {
  return hashFolder(await listFolder(await bundlesFolder(), 'bundle folder'));
}

function environmentPart(built: JobFile | Environment | null): LocalParts['pythonEnvironment'] {
  return built === null || 'shipped' in built ? built : { ...archiveOf(built), needs: built };
}

interface BuiltFile {
  readonly archive: string;
  readonly sha256: string;
  readonly size: number;
}

function archiveOf(built: BuiltFile): BuiltArchive;
function archiveOf(built: BuiltFile | null): BuiltArchive | null;
function archiveOf(built: BuiltFile | null): BuiltArchive | null {
  return built && { file: built.archive, hash: built.sha256, size: built.size };
}

async function dataPart(name: string, from: string): Promise<DataPart> {
  if (isUri(from)) {
    return { name, from };
  }
  const folder = await hashFolder(await listData(from, name));
  return { name, from: { folder, single: (await stat(from)).isFile() } };
}

export interface JobParts<OfResource, OfData> {
  readonly source: OfResource | null;
  readonly bundles: OfResource;
  readonly runtime: OfResource | null;
  readonly tensorboard: OfResource | null;
  readonly pythonEnvironment: OfResource | null;
  readonly data: Readonly<Record<string, OfData>>;
  readonly files: ByRole<OfResource>;
}

export type FoundParts = JobParts<Part<LocalResource>, Part<string>>;
export type StagedParts = JobParts<LocalResource, string>;

/** Checks which of a job's files are already on the cluster. Does not upload anything. */
export async function findParts(place: StagingPlace, job: Job, local: LocalParts, home: string): Promise<FoundParts> {
  const packed = [
    local.source && findFolder(place, CONTAINER_LAYOUT.source, local.source),
    findFolder(place, CONTAINER_LAYOUT.bundles, local.bundles),
  ] as const;
  const finding = mapRoles(local.files, (file) => findJobFile(place, file, home));
  try {
    return await allOf({
      source: packed[0],
      bundles: packed[1],
      runtime: findRuntime(place, job, local.runtime, home),
      tensorboard: local.tensorboard && findArchive(place, CONTAINER_LAYOUT.tensorboard, local.tensorboard),
      pythonEnvironment: local.pythonEnvironment && findEnvironment(place, local.pythonEnvironment, home),
      data: Promise.all(local.data.map(async (part) => [part.name, await findDataPart(place, part)] as const)).then(Object.fromEntries),
      files: settledRoles(finding),
    });
  } catch (error) {
    for (const part of await Promise.allSettled([...packed, ...Object.values(finding).flat()])) {
      if (part.status === 'fulfilled') {
        await part.value?.discard();
      }
    }
    throw error;
  }
}

async function findRuntime(place: StagingPlace, job: Job, built: BuiltArchive | null, home: string): Promise<Part<LocalResource> | null> {
  if (built !== null) {
    return findArchive(place, CONTAINER_LAYOUT.runtime, built);
  }
  if (job.runtime === 'system') {
    return null;
  }
  const uri = placeUri(job.runtime, home) ?? job.runtime;
  const entry = await place.storage.stat(uri);
  if (entry?.type !== 'file') {
    throw new TonyError('RUNTIME_NOT_FOUND', `The runtime ${uri} ${entry === null ? 'does not exist' : 'is a folder'}.`);
  }
  const { size, modifiedAt } = entry;
  // For a public archive, YARN keeps one copy per node for all users.
  const visibility = (await whyNotPublic(place.storage, entry)) === null ? 'public' : 'private';
  const resource = { name: CONTAINER_LAYOUT.runtime, uri, type: 'archive', visibility, size, timestamp: modifiedAt } as const;
  return presentPart(CONTAINER_LAYOUT.runtime, size, resource, (staged) => isResourceThere(place.storage, staged));
}

function findEnvironment(place: StagingPlace, environment: BuiltArchive | JobFile, home: string): Promise<Part<LocalResource>> {
  return 'file' in environment ? findArchive(place, CONTAINER_LAYOUT.environment, environment) : findJobFile(place, environment, home);
}

async function findDataPart(place: StagingPlace, { name, from }: DataPart): Promise<Part<string>> {
  return typeof from === 'string' ? presentPart(name, 0, from, async () => true) : findData(place, name, from.folder, from.single);
}

export function listParts({ source, bundles, runtime, tensorboard, pythonEnvironment, data, files }: FoundParts): Part<unknown>[] {
  return [source, bundles, runtime, tensorboard, pythonEnvironment, ...Object.values(data), ...Object.values(files).flat()].filter(
    (part) => part !== null,
  );
}

export async function discardParts(parts: FoundParts): Promise<void> {
  await Promise.all(listParts(parts).map((part) => part.discard()));
}

/** Uploads the missing files concurrently. If one upload fails, aborts the other uploads. */
export async function stageParts(parts: FoundParts, signal?: AbortSignal): Promise<StagedParts> {
  const [source, bundles, runtime, tensorboard, pythonEnvironment, data, files] = await sideBySide(
    (each) => [
      parts.source?.stage(each) ?? null,
      parts.bundles.stage(each),
      parts.runtime?.stage(each) ?? null,
      parts.tensorboard?.stage(each) ?? null,
      parts.pythonEnvironment?.stage(each) ?? null,
      sideBySide((own) => Object.entries(parts.data).map(async ([name, part]) => [name, await part.stage(own)] as const), each),
      settledRoles(mapRoles(parts.files, (part) => part.stage(each))),
    ],
    signal,
  );
  return { source, bundles, runtime, tensorboard, pythonEnvironment, data: Object.fromEntries(data), files };
}

/**
 * Verifies that all files still exist after job.json has been written. A concurrent prune first renames a cache entry and then reads all
 * job.json files (see cache/prune-cache.ts). Therefore, either the prune finds this job and keeps the entry, or this function finds that
 * the entry is missing.
 * @throws TonyError STAGING_UNWRITABLE
 */
export async function refuseRemoved(parts: FoundParts, staged: StagedParts): Promise<void> {
  const look = async <T>(part: Part<T> | null, as: T | null | undefined): Promise<string[]> =>
    part === null || as === null || as === undefined || (await part.isStaged(as)) ? [] : [part.name];
  const removed = await Promise.all([
    look(parts.source, staged.source),
    look(parts.bundles, staged.bundles),
    look(parts.runtime, staged.runtime),
    look(parts.tensorboard, staged.tensorboard),
    look(parts.pythonEnvironment, staged.pythonEnvironment),
    ...Object.entries(parts.data).map(([name, part]) => look(part, staged.data[name])),
    ...Object.entries(parts.files).flatMap(([role, files]) => files.map((part, at) => look(part, staged.files[role]?.[at]))),
  ]);
  if (removed.flat().length > 0) {
    throw removedFromCache(removed.flat());
  }
}

/** Returns the expected result of staging. Missing files have a modification time of 0. */
export function expectedParts({ source, bundles, runtime, tensorboard, pythonEnvironment, data, files }: FoundParts): StagedParts {
  return {
    source: source?.expected ?? null,
    bundles: bundles.expected,
    runtime: runtime?.expected ?? null,
    tensorboard: tensorboard?.expected ?? null,
    pythonEnvironment: pythonEnvironment?.expected ?? null,
    data: Object.fromEntries(Object.entries(data).map(([name, part]) => [name, part.expected])),
    files: mapRoles(files, ({ expected }) => expected),
  };
}

async function settledRoles<T>(values: ByRole<Promise<T>>): Promise<Record<string, T[]>> {
  return Object.fromEntries(
    await Promise.all(Object.entries(values).map(async ([role, list]) => [role, await Promise.all(list)] as const)),
  );
}
