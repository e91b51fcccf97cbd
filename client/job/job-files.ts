import { stat } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_LAYOUT, type Job } from '../../conf/job.ts';
import type { PythonArchive } from '../../conf/python.ts';
import type { ShippedFile } from '../../conf/shipped-files.ts';
import { isUri } from '../../conf/values/is-uri.ts';
import { EVERY_ROLE } from '../../conf/values/role-name.ts';
import { TonyError } from '../../platform/errors.ts';
import { type HashedFolder, hashFile, hashFolder } from './source-archive.ts';
import { type FolderListing, listFolder } from './source-folder.ts';

/** Archive formats that NodeManagers unpack. NodeManagers recognise a format by the file name. */
const ARCHIVE_FORMAT = /\.(?:tar\.gz|tgz|tar|zip)$/i;

/** A file that job.yaml lists, with its content if the file is on this machine. */
export interface JobFile {
  /** Key in job.yaml for messages, such as `files.vocab.txt`. */
  readonly key: string;
  /** Path in a container's working directory. */
  readonly place: string;
  readonly shipped: ShippedFile;
  readonly content: 'on-storage' | LocalContent;
}

export type LocalContent =
  /** A file, or an archive that NodeManagers can unpack. */
  | { readonly hash: string; readonly size: number }
  /** A folder, which tony-ts packs. */
  | { readonly folder: HashedFolder };

/** Values for each role. The values under `*` apply to all roles. */
export type ByRole<T> = Readonly<Record<string, readonly T[]>>;

export function mapRoles<From, To>(values: ByRole<From>, map: (value: From) => To): Record<string, To[]> {
  return Object.fromEntries(Object.entries(values).map(([role, list]) => [role, list.map(map)]));
}

/**
 * Finds and hashes the files and archives that job.yaml lists.
 * @param source source folder, or null if there is none. A listed file must not have the same name as a source file.
 * @throws TonyError SOURCE_NOT_FOUND, SOURCE_UNREADABLE, JOB_INVALID
 */
export async function findJobFiles(job: Job, source: FolderListing | null): Promise<ByRole<JobFile>> {
  const lists = [[EVERY_ROLE, job.files] as const, ...job.roles.map(({ name, files }) => [name, files] as const)];
  const found: [string, JobFile[]][] = [];
  for (const [role, files] of lists) {
    const ofRole: JobFile[] = [];
    for (const shipped of files) {
      refuseClash(shipped, source);
      const named = { key: keyOf(shipped), place: `${CONTAINER_LAYOUT.files}/${shipped.name}`, shipped };
      ofRole.push({ ...named, content: await contentOf(named) });
    }
    if (ofRole.length > 0) {
      found.push([role, ofRole]);
    }
  }
  return Object.fromEntries(found);
}

/**
 * Finds and hashes the archive that contains a job's Python environment.
 * @throws TonyError SOURCE_NOT_FOUND, SOURCE_UNREADABLE, JOB_INVALID
 */
export async function findPythonArchive({ path: file }: PythonArchive): Promise<JobFile> {
  const name = CONTAINER_LAYOUT.environment;
  const named = { key: 'python.archive', place: name, shipped: { name, type: 'archive', path: file, visibility: null } } as const;
  const content = await contentOf(named);
  if (content !== 'on-storage' && 'folder' in content) {
    throw new TonyError('JOB_INVALID', `python.archive: ${file} is a folder.`, {
      hint: 'Pack the environment with conda-pack or venv-pack, and name the archive.',
    });
  }
  return { ...named, content };
}

/** Returns the key in job.yaml for error messages, such as `files.vocab.txt`. */
export function keyOf({ type, name }: ShippedFile): string {
  return `${type === 'file' ? 'files' : 'archives'}.${name}`;
}

/** Returns the file name extension of an archive. NodeManagers use it to recognise the format. */
export function archiveEnding({ key, shipped }: Pick<JobFile, 'key' | 'shipped'>): string {
  const ending = ARCHIVE_FORMAT.exec(shipped.path)?.[0].toLowerCase();
  if (ending === undefined) {
    throw new TonyError('JOB_INVALID', `${key}: NodeManagers cannot unpack ${shipped.path}.`, {
      hint: 'Use an archive whose name ends with .tar.gz, .tgz, .tar or .zip, a local folder, or list the file under `files`.',
    });
  }
  return ending;
}

async function contentOf(named: Pick<JobFile, 'key' | 'shipped'>): Promise<JobFile['content']> {
  const { key, shipped } = named;
  const { path: place, type } = shipped;
  if (isUri(place)) {
    if (type === 'archive') {
      archiveEnding(named);
    }
    return 'on-storage';
  }
  const found = await stat(place).catch((error: unknown) => {
    throw new TonyError('SOURCE_NOT_FOUND', `${key}: ${place} does not exist.`, {
      hint: 'Correct the path in job.yaml. It is relative to the folder that contains job.yaml.',
      cause: error,
    });
  });
  if (!found.isDirectory()) {
    if (type === 'archive') {
      archiveEnding(named);
    }
    return { hash: await hashFile(place), size: found.size };
  }
  if (type === 'file') {
    throw new TonyError('JOB_INVALID', `${key}: ${place} is a folder.`, {
      hint: 'List it under `archives` instead: tony-ts then packs the folder, and the nodes unpack it.',
    });
  }
  return { folder: await hashFolder(await listFolder(place, `${key} folder`)) };
}

function refuseClash(shipped: ShippedFile, source: FolderListing | null): void {
  const { name } = shipped;
  if (source === null || !source.entries.some((entry) => entry.path === name)) {
    return;
  }
  throw new TonyError('JOB_INVALID', `${keyOf(shipped)}: the source folder ${source.root} also contains ${name}.`, {
    hint: `Remove ${keyOf(shipped)} if this is the same ${shipped.type}, choose another name, or exclude /${name} in ${path.join(source.root, '.tonyignore')}.`,
  });
}
