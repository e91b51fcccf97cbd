import { createHash } from 'node:crypto';
import { isAbsolute, resolve } from 'node:path';
import { isUri } from '../../../conf/values/is-uri.ts';
import { counted } from '../../../conf/values/quantities.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Entry, Storage } from '../../../storage/storage.ts';
import { fileUri, joinUri } from '../../../storage/uri.ts';
import { expandSlashes, isHidden, isPattern, matcherOf, patternUri, withoutEncoding } from './glob.ts';

export interface DataFile {
  readonly uri: string;
  readonly size: number;
  readonly modifiedAt: number;
  /** Changes whenever the contents of an object in an object store change. */
  readonly etag?: string;
  /** The files that contain the other columns of the same records. */
  readonly companions?: readonly DataFile[];
}

/** The URI of one file or folder. Unlike a string, it is never a pattern. An element of `files` is an example. */
export interface ExactName {
  readonly uri: string;
}

/** Patterns, paths or URIs of files or folders. A folder stands for all files in it, except hidden files (see `isHidden`). */
export type Files = string | ExactName | readonly (string | ExactName)[];

/** One of the names in `Files`. */
export interface InputName {
  /** Differs between names with different meanings. */
  readonly id: string;
  /** The URI of a single file or folder, or null for a pattern. */
  readonly literalUri: string | null;
  /** The patterns, as URIs, that together match the same files. */
  readonly patterns: readonly string[];
  /** The name as the program wrote it, for messages. */
  readonly text: string;
}

/**
 * Returns the names.
 * @throws TonyError USAGE if a name is missing or empty, for example because it comes from an unset variable.
 */
export function namesOf(files: Files): InputName[] {
  const all: unknown = Array.isArray(files) ? files : [files];
  const names = all as readonly unknown[];
  if (names.length === 0) {
    throw new TonyError('USAGE', 'a dataset needs the name of at least one file, folder or pattern, but its list of names is empty');
  }
  return names.map((name) => {
    if (typeof name === 'string' && name !== '') {
      return nameOfText(name);
    }
    if (typeof name === 'object' && name !== null && 'uri' in name && typeof name.uri === 'string' && isUri(name.uri)) {
      return { id: name.uri, literalUri: name.uri, patterns: [], text: name.uri };
    }
    const found = name === '' ? 'an empty string' : name === null ? 'null' : `of type ${typeof name}`;
    throw new TonyError(
      'USAGE',
      `the name of a dataset's file is ${found}, but must be a path, a URI, a pattern, or an object with a URI`,
      {
        hint: 'Check the variable that contains the name.',
      },
    );
  });
}

function nameOfText(text: string): InputName {
  if (literals.has(text)) {
    return { id: text, literalUri: text, patterns: [], text };
  }
  const isAddress = isUri(text);
  const patterns = expandSlashes(isAddress ? text : isAbsolute(text) ? text : resolve(text)).map((each) =>
    isAddress ? each : uriOf(each),
  );
  const [only = ''] = patterns;
  const isLiteral = patterns.length === 1 && namesAfterFolder(only).names.length === 0;
  return { id: isLiteral ? only : `pattern ${patterns.join(' ')}`, literalUri: isLiteral ? only : null, patterns, text };
}

/** Reports that a folder which stands for its files also contains other folders, whose files it does not stand for. */
type OnNested = (folder: string, nested: readonly Entry[]) => void;

/**
 * Returns the files with these names, sorted and without duplicates.
 * @throws TonyError NOT_FOUND if a name matches no file, unless `mayBeMissing` is true; STORAGE_DENIED if a file cannot be named.
 */
export async function listFiles(
  storage: Storage,
  files: Files,
  { mayBeMissing = false, onNotice = () => {} }: { readonly mayBeMissing?: boolean; readonly onNotice?: (message: string) => void } = {},
): Promise<DataFile[]> {
  const found = new Map<string, DataFile>();
  for (const { literalUri, patterns, text } of namesOf(files)) {
    const nested: string[] = [];
    const onNested: OnNested = (folder, entries) => {
      const [first] = entries;
      if (first !== undefined) {
        nested.push(
          `${folder} contains ${counted(entries.length, 'folder')}, such as ${first.name}, whose files the dataset does not read`,
        );
      }
    };
    const entries =
      literalUri === null
        ? (await Promise.all(patterns.map((pattern) => matchingFiles(storage, pattern, onNested)))).flat()
        : await filesAt(storage, literalUri, onNested);
    const [why] = nested;
    if (entries.length === 0 && !mayBeMissing) {
      throw notFound(literalUri === null, text, why);
    }
    if (why !== undefined) {
      onNotice(`${why}. Add the pattern for these folders, such as ${patternBelow(text)}, or use a pattern for the files alone`);
    }
    for (const { uri, size, modifiedAt, etag } of entries) {
      found.set(uri, { uri, size, modifiedAt, ...(etag !== undefined && { etag }) });
    }
  }
  const all = [...found.values()].sort((a, b) => (a.uri < b.uri ? -1 : 1));
  rememberLiterals(all);
  return all;
}

function notFound(isPatternName: boolean, text: string, nested: string | undefined): TonyError {
  if (nested !== undefined) {
    return new TonyError('NOT_FOUND', `there is no file directly in ${text}: ${nested}`, {
      hint: `Pass the pattern ${patternBelow(text)}. A row does not contain the values in the names of the folders.`,
    });
  }
  return isPatternName
    ? new TonyError('NOT_FOUND', `no file matches the pattern ${text}`, { hint: PATTERN_HINT })
    : new TonyError('NOT_FOUND', `there is no file at ${text}`, {
        hint: 'Check the name. A folder must contain a file that is not hidden.',
      });
}

/** Returns the pattern for the folders below a folder. */
function patternBelow(text: string): string {
  return `${text.replace(/\/$/, '')}/*`;
}

const PATTERN_HINT =
  'The characters * ? [ { and \\ have a special meaning in patterns. If one of them belongs to a name, write a backslash before it, or pass { uri }.';

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

/**
 * URIs with special characters that datasets have returned to the program. Only `file://` URIs are percent-encoded, so any other of these
 * URIs would otherwise be read as a pattern.
 */
const literals = new Set<string>();

export function rememberLiterals(files: readonly DataFile[]): void {
  for (const { uri } of files) {
    if (isPattern(uri)) {
      literals.add(uri);
    }
  }
}

function uriOf(path: string): string {
  const names = path.split('/');
  const first = names.findIndex(isPattern);
  if (first === -1) {
    return fileUri(path);
  }
  return patternUri(fileUri(names.slice(0, first).join('/') || '/'), names.slice(first).join('/'));
}

/** Splits a URI into a folder without patterns, and the remaining names. The names are empty if the URI is not a pattern. */
function namesAfterFolder(uri: string): { readonly folder: string; readonly names: readonly string[] } {
  const [, root = '', path = ''] = /^([a-z0-9+.-]+:(?:\/\/[^/]*)?)(\/.*)?$/is.exec(uri) ?? [];
  const names = path.split('/');
  const first = names.findIndex(isPattern);
  if (first === -1) {
    return { folder: uri, names: [] };
  }
  const isFile = /^file:/i.test(root);
  return {
    folder: `${root}${names.slice(0, first).join('/') || '/'}`,
    names: isFile ? names.slice(first).map(withoutEncoding) : names.slice(first),
  };
}

async function matchingFiles(storage: Storage, pattern: string, onNested: OnNested): Promise<Entry[]> {
  const { folder, names } = namesAfterFolder(pattern);
  if (names.length === 0) {
    return await filesAt(storage, folder, onNested);
  }
  let folders: string[] = [folder];
  for (const [depth, name] of names.entries()) {
    const isLast = depth === names.length - 1;
    const matches = matcherOf(name);
    const entries = (await Promise.all(folders.map((each) => listAll(storage, each, matches)))).flat();
    if (isLast) {
      return (await Promise.all(entries.map((entry) => (entry.type === 'file' ? [entry] : filesIn(storage, entry.uri, onNested))))).flat();
    }
    folders = entries.filter(({ type }) => type === 'folder').map((entry) => entry.uri);
  }
  return [];
}

async function filesAt(storage: Storage, uri: string, onNested: OnNested): Promise<Entry[]> {
  const entry = await storage.stat(uri);
  if (entry === null) {
    return [];
  }
  return entry.type === 'file' ? [entry] : await filesIn(storage, uri, onNested);
}

async function filesIn(storage: Storage, folder: string, onNested: OnNested): Promise<Entry[]> {
  const entries = await listAll(storage, folder, (name) => !isHidden(name));
  onNested(
    folder,
    entries.filter(({ type }) => type === 'folder'),
  );
  return entries.filter(({ type }) => type === 'file');
}

/** Lists the entries whose names match. An entry that cannot be read is an error, because the dataset would lose its records. */
async function listAll(storage: Storage, folder: string, matches: (name: string) => boolean): Promise<Entry[]> {
  const onUnreadable = (name: string, reason: string): void => {
    if (matches(name)) {
      throw new TonyError('DATA_INVALID', `${joinUri(folder, name)} cannot be read: ${reason}`, {
        hint: 'Rename, repair or remove it, or use a pattern that does not match it.',
      });
    }
  };
  return (await storage.list(folder, { onUnreadable })).filter(({ name }) => matches(name));
}
