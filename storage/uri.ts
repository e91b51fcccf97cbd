import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { HdfsLocation } from '../hadoop/configuration/file-systems/hdfs-place.ts';
import { TonyError } from '../platform/errors.ts';
import { withoutEnd } from '../platform/text/without-end.ts';

/*
 * File URIs. file:// URIs are percent-encoded, as in `pathToFileURL`. HDFS URIs (hdfs://, webhdfs://, swebhdfs://, viewfs://) and s3://
 * URIs are not encoded, as in Hadoop: `%3A` in a name is three characters.
 */

export interface FileUri {
  readonly scheme: 'file';
  readonly path: string;
}

/** An object in a bucket, or a folder, which is a common prefix of objects. Hadoop's schemes s3a:// and s3n:// are equivalent to s3://. */
export interface S3Uri {
  readonly scheme: 's3';
  readonly bucket: string;
  readonly path: string;
}

const S3_SCHEMES = ['s3', 's3a', 's3n'];

/** Returns true for a URI in an object store. Object stores cannot rename folders. */
export function isObjectStoreUri(uri: string): boolean {
  return S3_SCHEMES.includes(uri.split('://', 1)[0]?.toLowerCase() ?? '');
}

/**
 * Parses a file://, HDFS or s3:// URI with an absolute path.
 * @throws TonyError STORAGE_DENIED for any other text
 */
export function parseUri(uri: string): FileUri | HdfsLocation | S3Uri {
  const match = /^([a-zA-Z][a-zA-Z0-9+.-]*):(?:\/\/([^/]*))?(\/.*)?$/s.exec(uri);
  const [, scheme, authority = '', rawPath = '/'] = match ?? [];
  switch (scheme?.toLowerCase()) {
    case 'file':
      if (authority !== '' && authority !== 'localhost') {
        throw new TonyError('STORAGE_DENIED', `${uri}: a file:// URI cannot name a host.`);
      }
      return { scheme: 'file', path: cleanPath(decode(rawPath), uri) };
    case 'hdfs':
    case 'webhdfs':
    case 'swebhdfs':
    case 'viewfs':
      return { scheme: scheme.toLowerCase() as HdfsLocation['scheme'], authority, path: cleanPath(rawPath, uri) };
    case 's3':
    case 's3a':
    case 's3n':
      if (authority === '') {
        throw new TonyError('STORAGE_DENIED', `${uri} names no bucket.`, { hint: 'Write s3://BUCKET/KEY.' });
      }
      return { scheme: 's3', bucket: authority, path: cleanPath(rawPath, uri) };
    default:
      refuseAbsent(uri);
      throw new TonyError('STORAGE_DENIED', `"${uri}" is not a URI of a supported file system.`, {
        hint: 'Use a URI that begins with hdfs://, webhdfs://, swebhdfs://, viewfs://, s3:// or file:///.',
      });
  }
}

/**
 * Refuses a place such as `null/model`, which a program gets if it appends a name to a folder that it does not have.
 * @throws TonyError USAGE
 */
export function refuseAbsent(place: string): void {
  const [, absent] = /^(null|undefined)(?:\/|$)/.exec(place) ?? [];
  if (absent !== undefined) {
    throw new TonyError('USAGE', `The place ${JSON.stringify(place)} begins with ${absent}: the folder in it is not set.`, {
      hint: `Outside a job, \`cluster.outputUri\` is null. Pass a relative path to an export instead, such as 'model', which works in a job and outside. For a folder of this name, write ./${absent}.`,
    });
  }
}

export function fileUri(path: string): string {
  if (!isAbsolute(path)) {
    throw new TonyError('INTERNAL', `fileUri requires an absolute path, not ${path}.`);
  }
  return pathToFileURL(path)
    .href.replace(/[[\]*]/g, percentEncoded)
    .replace(/(?<=[^/])\/$/, '');
}

/**
 * Appends the names of folders and files to the URI of a folder. The names are taken literally on every file system, so they must not be
 * percent-encoded: `joinUri(cluster.outputDir, '50%20.txt')` names the file `50%20.txt`.
 */
export function joinUri(folder: string, ...names: readonly string[]): string {
  const isFile = /^file:/i.test(folder);
  const parts = names.flatMap((name) => name.split('/')).filter((part) => part !== '');
  return [withoutSlash(folder), ...(isFile ? parts.map((part) => encodeURIComponent(part).replaceAll('*', percentEncoded)) : parts)].join(
    '/',
  );
}

/** Encodes a character that URIs allow, but that has a special meaning in the patterns of datasets. */
function percentEncoded(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** Returns the URI of the parent folder. The parent of the root is the root itself. */
export function parentUri(uri: string): string {
  const trimmed = withoutSlash(uri);
  const cut = trimmed.lastIndexOf('/');
  const isBelowRoot = /^[a-z0-9+.-]+:\/\/[^/]*\/./is.test(trimmed);
  if (!isBelowRoot) {
    return uri;
  }
  const parent = trimmed.slice(0, cut);
  return /^[a-z0-9+.-]+:\/\/[^/]*$/i.test(parent) ? `${parent}/` : parent;
}

/** Returns the last path component, decoded. */
export function nameOf(uri: string): string {
  const { path } = parseUri(uri);
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Removes trailing slashes. `hdfs://nn/a/` becomes `hdfs://nn/a`, and `file:///` becomes `file://`. */
function withoutSlash(uri: string): string {
  const start = /^[a-zA-Z0-9+.-]+:\/\/[^/]*/.exec(uri)?.[0] ?? '';
  return start + withoutEnd(uri.slice(start.length), '/');
}

function cleanPath(path: string, uri: string): string {
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.some((part) => part === '.' || part === '..')) {
    throw new TonyError('STORAGE_DENIED', `${uri}: "." and ".." are not allowed in a URI.`);
  }
  if (path.includes('\0')) {
    throw new TonyError('STORAGE_DENIED', 'A URI must not contain a NUL character.');
  }
  return `/${parts.join('/')}`;
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    // The path contains an invalid percent sequence, so it is not encoded.
    return path;
  }
}
