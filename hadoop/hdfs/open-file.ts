import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { TonyError } from '../../platform/errors.ts';
import { ResumingReader } from '../http/resuming-reader.ts';
import { type FileStatus, isSameFile } from './web-hdfs-answers.ts';

/** A byte range, which defaults to the whole file. */
export interface FileRange {
  readonly offset?: number;
  readonly length?: number;
}

/** The requests that `openFile` sends. */
export interface FileRequests {
  /** Returns the file's status and the path at which its content is currently stored, or null if the file does not exist. */
  readonly find: () => Promise<{ readonly status: FileStatus; readonly path: string } | null>;
  readonly status: (path: string) => Promise<FileStatus | null>;
  /** Requests `length` bytes, or the rest of the file if there is no length. */
  readonly open: (
    path: string,
    range: { readonly offset: number; readonly length?: number },
    isHeldByUs: () => boolean,
  ) => Promise<IncomingMessage>;
}

interface Version {
  readonly status: FileStatus;
  /** The path at which the version's content is currently stored. */
  readonly path: string;
  readonly offset: number;
  readonly length: number;
}

/** Maximum number of attempts to open a file that another process is replacing. */
const MOST_REPLACEMENTS = 5;

/**
 * Streams one version of a file. If the file is replaced before the first byte arrives, streams the new version instead. If the file is
 * replaced later and the connection then breaks, the stream fails.
 */
export async function openFile(path: string, range: FileRange, requests: FileRequests): Promise<Readable> {
  const changed = (): TonyError => new TonyError('STORAGE_REFUSED', `${path} was changed while it was read.`, { hint: 'Read it again.' });
  let version = await versionOf(path, range, requests);
  if (version.length === 0) {
    return Readable.from([]);
  }
  const { offset } = version;
  return new ResumingReader(
    offset,
    async (at, isHeldByUs) => {
      for (let attempt = 1; ; attempt++) {
        const opened = await openVersion(version, at, isHeldByUs, requests);
        if (opened !== null) {
          return opened;
        }
        if (at > offset || attempt === MOST_REPLACEMENTS) {
          throw changed();
        }
        version = await versionOf(path, range, requests);
        if (version.length === 0) {
          throw changed();
        }
      }
    },
    async () => {
      const now = await requests.status(version.path);
      if (now === null || !isSameFile(version.status, now) || now.modificationTime !== version.status.modificationTime) {
        throw changed();
      }
    },
  );
}

async function versionOf(path: string, range: FileRange, { find }: FileRequests): Promise<Version> {
  const found = await find();
  if (found === null) {
    throw new TonyError('NOT_FOUND', `${path} does not exist.`);
  }
  if (found.status.type === 'folder') {
    throw new TonyError('NOT_FOUND', `${path} is a folder, not a file.`);
  }
  const offset = range.offset ?? 0;
  const length = Math.max(0, Math.min(range.length ?? found.status.length, found.status.length - offset));
  return { ...found, offset, length };
}

/** Requests the rest of a file version. Returns null if the response length shows that the file was replaced. */
async function openVersion(
  { path, status, offset, length }: Version,
  at: number,
  isHeldByUs: () => boolean,
  requests: FileRequests,
): Promise<{ readonly response: IncomingMessage; readonly remaining: number } | null> {
  const remaining = offset + length - at;
  // Request everything up to the end of the file where possible. The response length then shows whether the file has changed.
  const toEnd = offset + length === status.length;
  const response = await requests.open(path, toEnd ? { offset: at } : { offset: at, length: remaining }, isHeldByUs);
  const promised = response.headers['content-length'];
  if (promised === undefined || Number(promised) === remaining) {
    return { response, remaining };
  }
  response.destroy();
  return null;
}
