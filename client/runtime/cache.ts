import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { writeIfAbsent } from '../../platform/files/write-if-absent.ts';

/*
 * <cache>/runtime/
 *   <key>/                          finished runtime, created by a rename
 *   .build-<host>-<pid>-<random>/   build in progress, used by one process
 *   .lock-<key>                     "<host> <pid>" of the process that builds the runtime
 *
 * The lock avoids duplicate work. Concurrent builds of the same runtime would not interfere with each other.
 */

export function cacheFolder(environment: NodeJS.ProcessEnv = process.env, home: string = os.homedir()): string {
  if (environment.TONY_CACHE_DIR) {
    return path.resolve(environment.TONY_CACHE_DIR);
  }
  // The XDG Base Directory Specification tells programs to ignore relative paths.
  const xdg = environment.XDG_CACHE_HOME;
  return path.join(xdg && path.isAbsolute(xdg) ? xdg : path.join(home, '.cache'), 'tony-ts');
}

export function runtimesFolder(environment?: NodeJS.ProcessEnv): string {
  return path.join(cacheFolder(environment), 'runtime');
}

/**
 * Creates a folder in which to build an artefact. The folder is on the same file system as the finished artefacts, so that `publish` can
 * rename it. Also removes the build folders of processes that have exited.
 */
export async function openBuildFolder(runtimes: string): Promise<string> {
  await makeFolders(runtimes, 0o755);
  for (const name of await readdir(runtimes)) {
    const owner = /^\.build-(.+)-(\d+)-[0-9a-f]+$/.exec(name);
    if (owner === null || !hasEnded(owner[1] ?? '', Number(owner[2]))) {
      continue;
    }
    // The removal fails if a download is still writing to the folder after its parent process has exited. The next build tries again.
    await rm(path.join(runtimes, name), { recursive: true, force: true }).catch(() => {});
  }
  const folder = path.join(runtimes, `.build-${os.hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`);
  await mkdir(folder, { mode: 0o755 });
  return folder;
}

/** Renames a finished build folder to its final name. Returns false if another process has already published the artefact. */
export async function publish(folder: string, final: string): Promise<boolean> {
  try {
    await rename(folder, final);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') {
      return false;
    }
    throw error;
  }
}

/**
 * Runs `work` when no other process is building `key`.
 * @param waiting called once if another process is building `key`, with the ID of that process
 */
export async function asOnlyBuilder<T>(runtimes: string, key: string, waiting: (pid: number) => void, work: () => Promise<T>): Promise<T> {
  await makeFolders(runtimes, 0o755);
  const lock = path.join(runtimes, `.lock-${key}`);
  let reported = false;
  while (!(await writeIfAbsent(lock, `${os.hostname()} ${process.pid}`))) {
    const [host = '', pid = ''] = await readFile(lock, 'utf8').then(
      (text) => text.split(' '),
      () => [],
    );
    if (host !== '' && hasEnded(host, Number(pid))) {
      await rm(lock, { force: true });
      continue;
    }
    if (!reported && pid !== '') {
      reported = true;
      waiting(Number(pid));
    }
    await delay(200);
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

/** Returns true if the process has exited. Returns false for processes on other machines, which may share the home folder. */
function hasEnded(host: string, pid: number): boolean {
  if (host !== os.hostname()) {
    return false;
  }
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}
