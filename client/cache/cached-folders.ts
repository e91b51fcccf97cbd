import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { isTemporaryName, temporaryName } from '../../storage/temporary-name.ts';
import { joinUri } from '../../storage/uri.ts';
import { entriesBelow } from '../files/entries-below.ts';
import { severalAtOnce } from '../terminal/several-at-once.ts';

/*
 * Layout of the cache on HDFS (client/staging/staging.ts) and on this machine (client/staging/local-folder.ts):
 *
 *   cache/<sha256>/<name>-<size>.tar.gz, <name>.tar.gz        archive (HDFS only)
 *   cache/<sha256>/<name>                                     file or archive that job.yaml lists
 *   cache/<sha256>/<name>.unpacked/                           unpacked archive (this machine only)
 *   cache/<sha256>/<name>/                                    HDFS: input data; this machine: source, bundles, or the data of a call
 *   cache/<sha256>/.<name>.<random>.writing, .copy-<random>   unfinished file or folder; also at deeper levels of input data
 *   cache/.<sha256>-<ms>.<random>.writing                     folder that a prune is removing
 *
 * A prune does not remove any other files and folders.
 */

const AT_ONCE = 8;
const HASH = /^[0-9a-f]{64}$/;
const ASIDE = /^\.([0-9a-f]{64})(?:-(\d{1,15}))?\./;
const ARCHIVE = /^(.+?)(?:-\d+)?\.tar\.gz$/;

export interface CacheContent {
  /** Kind of content. `unfinished` means that an upload or a removal is in progress or was interrupted. */
  readonly kind: 'source' | 'bundles' | 'runtime' | 'tensorboard' | 'environment' | 'data' | 'file' | 'unfinished';
  /** For input data, the name in job.yaml. Otherwise, the file name in containers, or the name of the unfinished file or folder. */
  readonly name: string;
}

export interface CachedFolder {
  /** Hexadecimal SHA-256. */
  readonly hash: string;
  readonly uri: string;
  /** Jobs may use the same content under several names. Contains one item for each name. */
  readonly contents: readonly CacheContent[];
  readonly bytes: number;
  /** Latest modification time of the files, in ms since the epoch. */
  readonly writtenAt: number;
  /** Latest modification time of unfinished files, in ms since the epoch, or 0 if there are none. */
  readonly unfinishedSince: number;
}

export function cacheOf(root: string): string {
  return joinUri(root, 'cache');
}

/**
 * Returns the name that a prune gives to a cache folder before removing it. The name contains the current time, because renaming a folder
 * does not change its modification time.
 */
export function asideName(hash: string, now: number): string {
  return temporaryName(`${hash}-${now}`);
}

export function isUnfinished({ contents }: CachedFolder): boolean {
  return contents.every(({ kind }) => kind === 'unfinished');
}

/**
 * Lists all cache entries, in no particular order.
 * @param root URI of the staging root, or of the folder for local jobs.
 */
export async function cachedFolders(storage: Storage, root: string): Promise<CachedFolder[]> {
  const entries = await storage.list(cacheOf(root), { raw: true });
  const folders = entries.filter(({ type, name }) => type === 'folder' && (HASH.test(name) || ASIDE.test(name)));
  return (await severalAtOnce(folders, AT_ONCE, (folder) => look(storage, folder))).flat();
}

async function look(storage: Storage, folder: Entry): Promise<CachedFolder[]> {
  const [, asideHash, asideAt = '0'] = ASIDE.exec(folder.name) ?? [];
  if (asideHash !== undefined) {
    const { bytes, lastWritten } = await measure(storage, folder);
    return [unfinished(asideHash, { ...folder, size: bytes, modifiedAt: Math.max(lastWritten, Number(asideAt)) })];
  }
  const contents: CacheContent[] = [];
  const left: Entry[] = [];
  let bytes = 0;
  let lastWritten = 0;
  for (const entry of await storage.list(folder.uri, { raw: true })) {
    const measured =
      entry.type === 'folder' ? await measure(storage, entry) : { bytes: entry.size, lastWritten: entry.modifiedAt, left: [] };
    if (isLeftover(entry.name)) {
      left.push({ ...entry, size: measured.bytes, modifiedAt: measured.lastWritten });
    } else {
      contents.push(contentOf(entry));
      bytes += measured.bytes;
      lastWritten = Math.max(lastWritten, measured.lastWritten);
      left.push(...measured.left);
    }
  }
  const unfinishedSince = left.reduce((newest, { modifiedAt }) => Math.max(newest, modifiedAt), 0);
  const { name: hash, uri } = folder;
  if (contents.length > 0) {
    return [{ hash, uri, contents, bytes, writtenAt: lastWritten, unfinishedSince }, ...left.map((entry) => unfinished(hash, entry))];
  }
  // An interrupted upload leaves a folder with nothing but unfinished files. Report the folder as one unfinished entry.
  const size = left.reduce((sum, entry) => sum + entry.size, 0);
  return [unfinished(hash, { ...folder, name: left[0]?.name ?? '', size, modifiedAt: Math.max(unfinishedSince, folder.modifiedAt) })];
}

/** @returns the size and modification time of the finished files, and the unfinished files as `left` */
async function measure(storage: Storage, folder: Entry): Promise<{ bytes: number; lastWritten: number; left: Entry[] }> {
  const left: Entry[] = [];
  let bytes = 0;
  let lastWritten = 0;
  for await (const entry of entriesBelow(storage, folder.uri)) {
    if (entry.type === 'folder') {
      continue;
    }
    if (isTemporaryName(entry.name)) {
      left.push(entry);
    } else {
      bytes += entry.size;
      lastWritten = Math.max(lastWritten, entry.modifiedAt);
    }
  }
  return { bytes, lastWritten: lastWritten === 0 ? folder.modifiedAt : lastWritten, left };
}

function isLeftover(name: string): boolean {
  return isTemporaryName(name) || name.startsWith('.copy-');
}

function unfinished(hash: string, { uri, name, size, modifiedAt }: Entry): CachedFolder {
  const named = name.replace(/^\.(.+)\.[0-9a-f]{16}\.writing$/, '$1');
  return {
    hash,
    uri,
    contents: [{ kind: 'unfinished', name: ARCHIVE.exec(named)?.[1] ?? (ASIDE.test(name) ? '' : named) }],
    bytes: size,
    writtenAt: modifiedAt,
    unfinishedSince: modifiedAt,
  };
}

const KINDS: ReadonlyMap<string, CacheContent['kind']> = new Map([
  [CONTAINER_LAYOUT.source, 'source'],
  [CONTAINER_LAYOUT.bundles, 'bundles'],
  [CONTAINER_LAYOUT.runtime, 'runtime'],
  [CONTAINER_LAYOUT.tensorboard, 'tensorboard'],
  [CONTAINER_LAYOUT.environment, 'environment'],
]);

function contentOf({ name, type, uri }: Entry): CacheContent {
  const archived = type === 'file' ? ARCHIVE.exec(name)?.[1] : undefined;
  // On HDFS, source folders are stored as archives, so a folder is always input data, even if its name is `source`. The local cache stores
  // source folders unpacked.
  const known = KINDS.get(archived ?? (uri.startsWith('file:') ? name : ''));
  if (known !== undefined) {
    return { kind: known, name: archived ?? name };
  }
  const unpacked = /^(.+)\.unpacked$/.exec(name)?.[1];
  return type === 'file' || unpacked !== undefined ? { kind: 'file', name: unpacked ?? name } : { kind: 'data', name };
}
