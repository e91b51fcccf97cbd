import type { Readable } from 'node:stream';
import { TonyError } from '../../../platform/errors.ts';
import type { Entry, Storage } from '../../../storage/storage.ts';
import type { DataFile } from './file-set.ts';

type Version = Pick<Entry, 'size' | 'modifiedAt' | 'etag'>;

/** How to compare the modification times of `file://` files. Nodes may have separate copies of a file, with different times. */
export interface ComparedTimes {
  readonly comparesLocalTimes: boolean;
}

/** Verifies that files are still the ones that were listed. Each reader verifies each file when it first opens the file. */
export class FileChecks implements ComparedTimes {
  readonly comparesLocalTimes: boolean;
  readonly #checked = new Map<string, Promise<Version>>();

  constructor(times: ComparedTimes) {
    this.comparesLocalTimes = times.comparesLocalTimes;
  }

  /** @throws TonyError NOT_FOUND if the file has been removed, or DATA_INVALID if it has changed since it was listed. */
  async opened(storage: Storage, file: DataFile): Promise<void> {
    const checking = this.#checked.get(file.uri) ?? check(storage, file, this);
    this.#checked.set(file.uri, checking);
    await checking;
  }

  /**
   * Verifies again after the last byte, because a local file can be rewritten in place while it is read.
   * @throws TonyError NOT_FOUND, DATA_INVALID
   */
  async finished(storage: Storage, file: DataFile): Promise<void> {
    const before = await this.#checked.get(file.uri);
    if (before === undefined || !isLocal(file)) {
      return;
    }
    const now = await storage.stat(file.uri);
    // A reader keeps a removed file open, so it has read the file as it was listed.
    if (now !== null && !isSameVersion(before, now)) {
      throw changedFile(file);
    }
  }
}

async function check(storage: Storage, file: DataFile, times: ComparedTimes): Promise<Version> {
  const now = await storage.stat(file.uri);
  if (now === null) {
    throw removedFile(file);
  }
  if (hasChanged(file, now, times)) {
    throw changedFile(file);
  }
  return now;
}

/** Opens a file, and verifies that it is the listed one. */
export async function openListed(
  storage: Storage,
  file: DataFile,
  range: { readonly offset: number; readonly length: number },
  checks: FileChecks | undefined,
): Promise<Readable> {
  const checking = checks?.opened(storage, file);
  const opening = storage.open(file.uri, range);
  // Either may fail while the code below waits for the other one. Without these handlers, the rejection would end the process.
  checking?.catch(() => {});
  opening.catch(() => {});
  try {
    await checking;
  } catch (error) {
    opening.then(
      (stream) => stream.destroy(),
      () => {},
    );
    throw error;
  }
  return await opening;
}

/** Returns true if a file differs from the listed one. */
export function hasChanged(listed: DataFile, now: Version, { comparesLocalTimes }: ComparedTimes): boolean {
  return isLocal(listed) && !comparesLocalTimes ? listed.size !== now.size : !isSameVersion(listed, now);
}

function isSameVersion(one: Version, other: Version): boolean {
  const haveTags = one.etag !== undefined && other.etag !== undefined;
  return one.size === other.size && (haveTags ? one.etag === other.etag : one.modifiedAt === other.modifiedAt);
}

function isLocal({ uri }: DataFile): boolean {
  return /^file:/i.test(uri);
}

const HINT = 'Write new data to new files. To train on the changed files, start a new job with another checkpoint folder.';

export function changedFile({ uri }: DataFile): TonyError {
  return new TonyError('DATA_INVALID', `${uri} has changed since the dataset's files were listed`, { hint: HINT });
}

export function removedFile({ uri }: DataFile): TonyError {
  return new TonyError('NOT_FOUND', `${uri} has been removed since the dataset's files were listed`, { hint: HINT });
}
