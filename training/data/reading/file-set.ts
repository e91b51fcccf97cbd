import { createHash } from 'node:crypto';
import { isAbsolute, resolve } from 'node:path';
import { isUri } from '../../../conf/values/is-uri.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Entry, Storage } from '../../../storage/storage.ts';
import { fileUri, joinUri } from '../../../storage/uri.ts';
import { isHidden, isPattern, matcherOf } from './glob.ts';

export interface DataFile {
  readonly uri: string;
  readonly size: number;
  readonly modifiedAt: number;
  /** The files that contain the other columns of the same records. */
  readonly companions?: readonly DataFile[];
}

/** Patterns, paths or URIs of files or folders. A folder stands for all files in it, except hidden files (see `isHidden`). */
export type Files = string | readonly string[];

/**
 * Returns the files that match the patterns, sorted and without duplicates.
 * @throws TonyError NOT_FOUND if a pattern matches no file.
 */
export async function listFiles(storage: Storage, files: Files): Promise<DataFile[]> {
  const found = new Map<string, DataFile>();
  for (const pattern of typeof files === 'string' ? [files] : files) {
    const entries = await entriesOf(storage, uriOf(pattern));
    if (entries.length === 0) {
      throw new TonyError('NOT_FOUND', `no file matches ${pattern}`);
    }
    for (const { uri, size, modifiedAt } of entries) {
      found.set(uri, { uri, size, modifiedAt });
    }
  }
  return [...found.values()].sort((a, b) => (a.uri < b.uri ? -1 : 1));
}

export type FileLister = (storage: Storage) => Promise<DataFile[]>;

export function listerOf(files: Files): FileLister {
  return (storage) => listFiles(storage, files);
}

/**
 * Returns a function that lists the files of the first column. A file's companions are the files with the same index in the other columns.
 * The function throws TonyError NOT_FOUND if a pattern matches no file, or DATA_INVALID if the columns have different numbers of files.
 */
export function listerOfColumns(columns: readonly Files[]): FileLister {
  return async (storage) => {
    const [first = [], ...others] = await Promise.all(columns.map((files) => listFiles(storage, files)));
    const odd = others.find(({ length }) => length !== first.length);
    if (odd !== undefined) {
      const names = (files: readonly DataFile[]) => `${files[0]?.uri}${files.length > 1 ? ` and ${files.length - 1} more` : ''}`;
      throw new TonyError('DATA_INVALID', `the columns have different numbers of files: ${names(first)}, but ${names(odd)}`);
    }
    return first.map((file, index) => ({ ...file, companions: others.map((column) => column[index] as DataFile) }));
  };
}

/** Returns a hash of the files' URIs, sizes and modification times. The hash changes whenever the files change. */
export function fingerprint(files: readonly DataFile[]): string {
  const hash = createHash('sha256');
  for (const { uri, size, modifiedAt } of files.flatMap((file) => [file, ...(file.companions ?? [])])) {
    hash.update(`${uri}\0${size}\0${modifiedAt}\n`);
  }
  return hash.digest('hex').slice(0, 16);
}

/** Returns the error for a stored position that refers to other files. */
export function otherFiles(): TonyError {
  return new TonyError('DATA_INVALID', "the dataset's files have changed since the checkpoint, so training cannot resume", {
    hint: 'Restore the files, or start a new job with another checkpoint folder.',
  });
}

function uriOf(place: string): string {
  if (isUri(place)) {
    return place;
  }
  const [folder = '', ...names] = segmentsOf(isAbsolute(place) ? place : resolve(place));
  return joinUri(fileUri(folder === '' ? '/' : folder), ...names);
}

/** Splits a path before its first pattern. Returns the folder without patterns, followed by the remaining names. */
function segmentsOf(path: string): string[] {
  const names = path.split('/');
  const first = names.findIndex(isPattern);
  return first === -1 ? [path] : [names.slice(0, first).join('/'), ...names.slice(first)];
}

async function entriesOf(storage: Storage, uri: string): Promise<Entry[]> {
  const [, root = '', path = ''] = /^([a-z0-9+.-]+:(?:\/\/[^/]*)?)(\/.*)?$/is.exec(uri) ?? [];
  const isFile = /^file:/i.test(root);
  const names = path.split('/').map((name) => (isFile ? decoded(name) : name));
  const first = names.findIndex(isPattern);
  if (first === -1) {
    return await filesAt(storage, uri);
  }
  let folders: string[] = [joinUri(`${root}/`, ...names.slice(0, first))];
  for (const [depth, name] of names.slice(first).entries()) {
    const isLast = first + depth === names.length - 1;
    const matches = matcherOf(name);
    const entries = (await Promise.all(folders.map((folder) => storage.list(folder)))).flat().filter((entry) => matches(entry.name));
    if (isLast) {
      return (await Promise.all(entries.map((entry) => (entry.type === 'file' ? [entry] : filesIn(storage, entry.uri))))).flat();
    }
    folders = entries.filter(({ type }) => type === 'folder').map((entry) => entry.uri);
  }
  return [];
}

async function filesAt(storage: Storage, uri: string): Promise<Entry[]> {
  const entry = await storage.stat(uri);
  if (entry === null) {
    return [];
  }
  return entry.type === 'file' ? [entry] : await filesIn(storage, uri);
}

async function filesIn(storage: Storage, folder: string): Promise<Entry[]> {
  return (await storage.list(folder)).filter(({ type, name }) => type === 'file' && !isHidden(name));
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
