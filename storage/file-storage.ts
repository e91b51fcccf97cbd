import { createReadStream } from 'node:fs';
import { chmod, type FileHandle, link, lstat, open, readdir, readFile, rename, rm, stat, unlink } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { type ByteSource, openSource } from '../platform/byte-source.ts';
import { fileErrorOf, TonyError } from '../platform/errors.ts';
import { ifMissing } from '../platform/files/if-missing.ts';
import { makeFolders } from '../platform/files/make-folders.ts';
import { fileError } from './file-error.ts';
import type { Entry, ListingOptions, Storage, WriteOptions } from './storage.ts';
import { isTemporaryName, temporaryName } from './temporary-name.ts';
import { joinUri, parseUri } from './uri.ts';

const FILE_PERMISSION = 0o644;
const FOLDER_PERMISSION = 0o755;
const READ_CHUNK_BYTES = 256 * 1024;

/** Storage on the local file system, for file:// URIs. */
export class FileStorage implements Storage {
  async open(uri: string, range: { offset?: number; length?: number } = {}): Promise<Readable> {
    const path = pathOf(uri);
    return translated(uri, async () => {
      const handle = await open(path, 'r');
      try {
        const status = await handle.stat();
        if (status.isDirectory()) {
          throw new TonyError('NOT_FOUND', `${uri} is a folder, not a file.`);
        }
        const start = range.offset ?? 0;
        const end = Math.min(range.length === undefined ? status.size : start + range.length, status.size);
        if (end <= start) {
          await handle.close();
          return Readable.from([]);
        }
        // In `createReadStream`, `end` is inclusive.
        return createReadStream('', { fd: handle, start, end: end - 1, highWaterMark: READ_CHUNK_BYTES });
      } catch (error) {
        await handle.close();
        throw error;
      }
    });
  }

  read(uri: string): Promise<Buffer> {
    const path = pathOf(uri);
    return translated(uri, () => readFile(path));
  }

  async write(uri: string, data: ByteSource, options: WriteOptions = {}): Promise<boolean> {
    const path = pathOf(uri);
    const temporary = join(dirname(path), temporaryName(basename(path)));
    if (options.ifAbsent && (await isThere(path))) {
      return false;
    }
    if (options.makeParents !== false) {
      await translated(uri, () => makeFolders(dirname(path), FOLDER_PERMISSION));
    }
    const handle = await translated(uri, () => open(temporary, 'wx', options.permission ?? FILE_PERMISSION));
    try {
      await fill(uri, handle, data, options);
      return await translated(uri, () => giveName(temporary, path, options.ifAbsent ?? false));
    } finally {
      // After a failure or after `link`, the temporary file still exists.
      await rm(temporary, { force: true }).catch(() => undefined);
    }
  }

  async stat(uri: string): Promise<Entry | null> {
    const path = pathOf(uri);
    return entryOf(uri, basename(path), path);
  }

  async list(uri: string, { raw = false, most = Number.POSITIVE_INFINITY, onUnreadable }: ListingOptions = {}): Promise<Entry[]> {
    const path = pathOf(uri);
    const names = await translated(uri, () => readdir(path).catch(ifMissing([])));
    const listed = names
      .filter((name) => raw || !isTemporaryName(name))
      .sort()
      .slice(0, most);
    const entries = await Promise.all(listed.map((name) => entryOf(joinUri(uri, name), name, join(path, name), raw ? lstat : stat)));
    for (const [index, name] of listed.entries()) {
      const reason = onUnreadable !== undefined && entries[index] === null ? await whyUnreadable(join(path, name), name) : null;
      if (reason !== null) {
        onUnreadable?.(name, reason);
      }
    }
    // Omit entries that have been removed since the folder was listed.
    return entries.filter((entry) => entry !== null);
  }

  async rename(from: string, to: string): Promise<boolean> {
    const [source, target] = [pathOf(from), pathOf(to)];
    return translated(`${from} to ${to}`, async () => {
      const status = await lstat(source).catch(ifMissing(null));
      if (status === null || (await isThere(target))) {
        return false;
      }
      await makeFolders(dirname(target), FOLDER_PERMISSION);
      if (!status.isDirectory()) {
        const isRenamed = await giveName(source, target, true);
        if (isRenamed) {
          // Another process may have removed the source already.
          await unlink(source).catch(ifMissing(undefined));
        }
        return isRenamed;
      }
      // If another process creates the target or removes the source at the same time, the rename fails with one of these errors.
      return rename(source, target).then(
        () => true,
        (error: NodeJS.ErrnoException) => {
          if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'ENOENT'].includes(error.code ?? '')) {
            return false;
          }
          throw error;
        },
      );
    });
  }

  async remove(uri: string): Promise<boolean> {
    const path = pathOf(uri);
    if (path === '/') {
      throw new TonyError('STORAGE_DENIED', `${uri}: the root folder cannot be removed.`);
    }
    return translated(uri, async () => {
      const status = await lstat(path).catch(ifMissing(null));
      if (status === null) {
        return false;
      }
      if (!status.isDirectory()) {
        return unlink(path).then(() => true, ifMissing(false));
      }
      // As on HDFS, the rename makes the removal atomic. Concurrent writers either write to the renamed folder, which is removed with all
      // of its content, or create a new folder.
      const aside = join(dirname(path), temporaryName(basename(path)));
      if (!(await rename(path, aside).then(() => true, ifMissing(false)))) {
        return false;
      }
      try {
        await rm(aside, { recursive: true, force: true });
      } catch (error) {
        await rename(aside, path).catch(() => undefined);
        throw error;
      }
      return true;
    });
  }

  async makeFolder(uri: string, permission = FOLDER_PERMISSION): Promise<void> {
    const path = pathOf(uri);
    await translated(uri, async () => {
      const made = await makeFolders(path, permission);
      // chmod sets the exact permission, whereas mkdir applies the umask.
      if (made !== undefined) {
        await chmod(path, permission);
      }
    });
  }

  close(): void {
    // This storage has no open files or connections between operations.
  }
}

/** Returns why a listed entry has no status, or null if it has been removed. */
async function whyUnreadable(path: string, name: string): Promise<string | null> {
  if ((await lstat(path).catch(ifMissing(null))) !== null) {
    return 'the symbolic link has no target';
  }
  return name.includes('\uFFFD') ? 'its name is not valid UTF-8' : null;
}

async function fill(uri: string, handle: FileHandle, data: ByteSource, options: WriteOptions): Promise<void> {
  try {
    // chmod sets the exact permission, whereas open applies the umask.
    await translated(uri, () => handle.chmod(options.permission ?? FILE_PERMISSION));
    let bytes = 0;
    const opened = openSource(data);
    for await (const chunk of opened instanceof Uint8Array ? [opened] : opened) {
      await translated(uri, () => handle.writeFile(chunk));
      bytes += chunk.byteLength;
      options.onProgress?.(bytes);
    }
    // Without datasync, the file could be empty after a power failure.
    await translated(uri, () => handle.datasync());
  } finally {
    await handle.close();
  }
}

/** Gives a file its final name. If `exclusive` is true and `path` exists, returns false and keeps the temporary file. */
async function giveName(temporary: string, path: string, exclusive: boolean): Promise<boolean> {
  if (!exclusive) {
    await rename(temporary, path).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EISDIR' ? Object.assign(error, { code: 'EEXIST' }) : error;
    });
    return true;
  }
  // link fails if the target exists, whereas rename would replace it.
  return link(temporary, path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') {
        return false;
      }
      throw error;
    },
  );
}

async function entryOf(uri: string, name: string, path: string, look: typeof stat | typeof lstat = stat): Promise<Entry | null> {
  const status = await translated(uri, () => look(path).catch(ifMissing(null)));
  if (status === null) {
    return null;
  }
  return {
    uri,
    name,
    type: status.isDirectory() ? 'folder' : 'file',
    size: status.isDirectory() ? 0 : status.size,
    modifiedAt: Math.floor(status.mtimeMs),
    permission: status.mode & 0o7777,
    owner: status.uid === process.getuid?.() ? userName() : String(status.uid),
  };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // The user ID may have no entry in the password file.
    return String(process.getuid?.() ?? '');
  }
}

function pathOf(uri: string): string {
  const parsed = parseUri(uri);
  if (parsed.scheme !== 'file') {
    throw new TonyError('STORAGE_DENIED', `${uri} is not a file:// URI.`);
  }
  return parsed.path;
}

function isThere(path: string): Promise<boolean> {
  return lstat(path).then(() => true, ifMissing(false));
}

async function translated<T>(uri: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw error instanceof TonyError ? error : fileError(error, `${uri}: ${fileErrorOf(error)}`);
  }
}
