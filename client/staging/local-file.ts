import { constants } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { TonyError } from '../../platform/errors.ts';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { fileUri } from '../../storage/uri.ts';
import { refuseForeignFolder } from '../files/own-folder.ts';
import { archiveEnding, type JobFile } from '../job/job-files.ts';
import { runExplained } from '../runtime/tool.ts';
import { localFailure, placeFolder } from './local-folder.ts';
import type { StagingEvent } from './staging.ts';

const UNPACK_MS = 10 * 60_000;

/**
 * Unpacks a zip archive. `extract` writes only within the target folder, but ignores the permissions in the archive. The script therefore
 * sets them on the path that `extract` returns: the name in the archive can be absolute or contain `..`.
 */
const UNZIP = `
import os, sys, zipfile
archive, folder = sys.argv[1:]
with zipfile.ZipFile(archive) as zipped:
    for entry in zipped.infolist():
        path = zipped.extract(entry, folder)
        mode = entry.external_attr >> 16
        if mode and not entry.is_dir():
            os.chmod(path, mode & 0o777)
`;

/**
 * Copies a file listed in job.yaml to the cache for local jobs, or unpacks an archive there, as a NodeManager does. Does nothing if the
 * cache already contains the file.
 */
export async function placeFile(
  root: string,
  file: JobFile,
  onEvent: (event: StagingEvent) => void,
  signal?: AbortSignal,
): Promise<LocalResource> {
  const { shipped, content } = file;
  const { name, type } = shipped;
  if (content === 'on-storage') {
    throw new TonyError('INTERNAL', `${shipped.path} is not a local file.`);
  }
  if ('folder' in content) {
    return { ...(await placeFolder(root, name, content.folder, onEvent)), name: file.place };
  }
  const target = path.join(root, 'cache', content.hash, type === 'archive' ? `${name}.unpacked` : name);
  await refuseForeignFolder(root, 'TONY_LOCAL_DIR');
  try {
    if ((await stat(target).catch(() => null)) === null) {
      onEvent({ type: 'upload', name, sent: 0, total: content.size });
      await place(file, target, signal);
      onEvent({ type: 'upload', name, sent: content.size, total: content.size });
    } else {
      onEvent({ type: 'unchanged', name, bytes: content.size });
    }
  } catch (error) {
    throw localFailure(root, error);
  }
  return { name: file.place, uri: fileUri(target), type, visibility: 'private', size: content.size, timestamp: 0 };
}

async function place(file: JobFile, target: string, signal: AbortSignal | undefined): Promise<void> {
  const { shipped } = file;
  await makeFolders(path.dirname(target), 0o700);
  const temporary = await mkdtemp(path.join(path.dirname(target), '.copy-'));
  try {
    const whole = path.join(temporary, 'content');
    if (shipped.type === 'archive') {
      await mkdir(whole);
      await unpack(file, whole, signal);
    } else {
      await copyFile(shipped.path, whole, constants.COPYFILE_FICLONE);
    }
    await makeReadOnly(whole);
    await rename(whole, target);
  } catch (error) {
    // A concurrent submission may already have created the copy.
    if ((await stat(target).catch(() => null)) === null) {
      throw error;
    }
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function unpack(file: JobFile, folder: string, signal: AbortSignal = new AbortController().signal): Promise<void> {
  const { key, shipped } = file;
  const broken = (reason: string, cause: unknown): TonyError =>
    new TonyError('SOURCE_UNREADABLE', `${key}: cannot unpack ${shipped.path}: ${reason}.`, {
      hint: 'Check that the file is a complete archive of the format that its name indicates.',
      cause,
    });
  const [command, args] =
    archiveEnding(file) === '.zip'
      ? ['python3', ['-I', '-c', UNZIP, shipped.path, folder]]
      : // Like NodeManagers, use tar, which keeps absolute links, such as the link from a virtual environment to its interpreter.
        ['tar', ['--no-same-owner', '-xf', shipped.path, '-C', folder]];
  await runExplained({ command, args, cwd: folder, signal, timeoutMs: UNPACK_MS }, (failure) =>
    broken(failure.lastLines(1).trim() || failure.message, failure),
  );
}

/** Makes the files read-only, because all jobs share them. */
async function makeReadOnly(place: string): Promise<void> {
  const { mode } = await stat(place);
  const entries = (mode & constants.S_IFMT) === constants.S_IFDIR ? await readdir(place, { withFileTypes: true }) : null;
  if (entries === null) {
    await chmod(place, mode & 0o555);
    return;
  }
  for (const entry of entries) {
    if (!entry.isSymbolicLink()) {
      await makeReadOnly(path.join(place, entry.name));
    }
  }
}
