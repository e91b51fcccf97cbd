import { stat } from 'node:fs/promises';
import { TonyError } from '../conf/errors.ts';
import { isUri } from '../conf/is-uri.ts';
import { CONTAINER_LAYOUT, type Job, type Resource } from '../conf/job.ts';
import { bundlesFolder } from './bundles.ts';
import { placeUri } from './place-uri.ts';
import { sideBySide } from './side-by-side.ts';
import { type HashedFolder, hashFolder } from './source-archive.ts';
import { listData, listFolder, listSource } from './source-folder.ts';
import { findData } from './stage-data.ts';
import { findArchive, findFolder, type Part, partElsewhere, type StagingPlace } from './staging.ts';
import { bringsTensorBoard } from './tensorboard-role.ts';

interface BuiltArchive {
  readonly file: string;
  readonly hash: string;
  readonly size: number;
}

interface DataPart {
  readonly name: string;
  /** Where it is already, or what has to be put there. */
  readonly from: string | { readonly folder: HashedFolder; readonly single: boolean };
}

/** What of this machine a job needs. */
export interface LocalParts {
  readonly source: HashedFolder | null;
  readonly bundles: HashedFolder;
  readonly runtime: BuiltArchive | null;
  readonly tensorboard: BuiltArchive | null;
  readonly data: readonly DataPart[];
}

/** Everything of this machine is looked at before anything is put on the cluster: a missing folder leaves no trace there. */
export async function localParts(job: Job, onProgress: (line: string) => void): Promise<LocalParts> {
  const [source, bundles, data] = await Promise.all([
    job.source && listSource(job.source.path, job.source.exclude).then(hashFolder),
    bundlesFolder()
      .then((folder) => listFolder(folder, 'folder of built programs'))
      .then(hashFolder),
    Promise.all(Object.entries(job.data).map(([name, from]) => dataPart(name, from))),
  ]);
  // One after the other: their lines of progress are for people to read.
  return { source, bundles, data, runtime: await builtRuntime(job, onProgress), tensorboard: await builtTensorBoard(job, onProgress) };
}

async function builtRuntime(job: Job, onProgress: (line: string) => void): Promise<BuiltArchive | null> {
  if (job.runtime !== 'default' && job.runtime !== 'gpu') return null;
  const { ensureRuntime } = await import('./runtime/ensure-runtime.ts');
  const { archive, sha256, size } = await ensureRuntime(onProgress, { gpu: job.runtime === 'gpu' });
  return { file: archive, hash: sha256, size };
}

async function builtTensorBoard(job: Job, onProgress: (line: string) => void): Promise<BuiltArchive | null> {
  if (!bringsTensorBoard(job)) return null;
  const { tensorBoardForJob } = await import('./runtime/tensorboard-for-job.ts');
  const built = await tensorBoardForJob(onProgress);
  return built && { file: built.archive, hash: built.sha256, size: built.size };
}

async function dataPart(name: string, from: string): Promise<DataPart> {
  if (isUri(from)) return { name, from };
  const folder = await hashFolder(await listData(from, name));
  return { name, from: { folder, single: (await stat(from)).isFile() } };
}

/** All parts of a job, each where it lies or will lie on the cluster. `T` is a part, or what it was staged as. */
export interface JobParts<OfResource, OfData> {
  readonly source: OfResource | null;
  readonly bundles: OfResource;
  readonly runtime: OfResource | null;
  readonly tensorboard: OfResource | null;
  readonly data: Readonly<Record<string, OfData>>;
}

export type FoundParts = JobParts<Part<Resource>, Part<string>>;
export type StagedParts = JobParts<Resource, string>;

/** Looks what of it is on the cluster already; nothing is uploaded. */
export async function findParts(place: StagingPlace, job: Job, local: LocalParts, home: string): Promise<FoundParts> {
  const packed = [
    local.source && findFolder(place, CONTAINER_LAYOUT.source, local.source),
    findFolder(place, CONTAINER_LAYOUT.bundles, local.bundles),
  ] as const;
  try {
    const [source, bundles, runtime, tensorboard, data] = await Promise.all([
      ...packed,
      findRuntime(place, job, local.runtime, home),
      local.tensorboard && findArchive(place, CONTAINER_LAYOUT.tensorboard, local.tensorboard),
      Promise.all(local.data.map(async (part) => [part.name, await findDataPart(place, part)] as const)),
    ]);
    return { source, bundles, runtime, tensorboard, data: Object.fromEntries(data) };
  } catch (error) {
    for (const part of await Promise.allSettled(packed)) if (part.status === 'fulfilled') await part.value?.discard();
    throw error;
  }
}

async function findRuntime(place: StagingPlace, job: Job, built: BuiltArchive | null, home: string): Promise<Part<Resource> | null> {
  if (built !== null) return findArchive(place, CONTAINER_LAYOUT.runtime, built);
  if (job.runtime === 'system') return null;
  const uri = placeUri(job.runtime, home) ?? job.runtime;
  const entry = await place.storage.stat(uri);
  if (entry?.type !== 'file') {
    throw new TonyError('RUNTIME_MISSING', `The runtime ${uri} is ${entry === null ? 'not there' : 'a folder'}.`);
  }
  const { size, modifiedAt } = entry;
  const resource = { name: CONTAINER_LAYOUT.runtime, uri, type: 'archive', visibility: 'private', size, timestamp: modifiedAt } as const;
  return partElsewhere(CONTAINER_LAYOUT.runtime, size, resource);
}

async function findDataPart(place: StagingPlace, { name, from }: DataPart): Promise<Part<string>> {
  return typeof from === 'string' ? partElsewhere(name, 0, from) : findData(place, name, from.folder, from.single);
}

/** Those of which this machine has something to upload, or had. */
export function listParts({ source, bundles, runtime, tensorboard, data }: FoundParts): Part<unknown>[] {
  return [source, bundles, runtime, tensorboard, ...Object.values(data)].filter((part) => part !== null);
}

/** Uploads what is missing; after a failure nothing is under way any more. */
export async function stageParts(parts: FoundParts, signal?: AbortSignal): Promise<StagedParts> {
  const [source, bundles, runtime, tensorboard, data] = await sideBySide(
    (each) => [
      parts.source?.stage(each) ?? null,
      parts.bundles.stage(each),
      parts.runtime?.stage(each) ?? null,
      parts.tensorboard?.stage(each) ?? null,
      sideBySide((own) => Object.entries(parts.data).map(async ([name, part]) => [name, await part.stage(own)] as const), each),
    ],
    signal,
  );
  return { source, bundles, runtime, tensorboard, data: Object.fromEntries(data) };
}

/** What staging will answer; times of what is not there yet are 0. */
export function expectedParts({ source, bundles, runtime, tensorboard, data }: FoundParts): StagedParts {
  return {
    source: source?.expected ?? null,
    bundles: bundles.expected,
    runtime: runtime?.expected ?? null,
    tensorboard: tensorboard?.expected ?? null,
    data: Object.fromEntries(Object.entries(data).map(([name, part]) => [name, part.expected])),
  };
}
