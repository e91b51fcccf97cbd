import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createWhole } from '../../conf/create-whole.ts';

/*
 * <cache>/runtime/
 *   <key>/                             a finished runtime: it appears whole, by a rename
 *   .build-<host>-<pid>-<random>/      one being built; nothing ever looks inside but its builder
 *   .lock-<key>                        "<host> <pid>": somebody is building it, so that others wait instead of doing the same.
 *                                      It only saves work: two builders at the same time would do no harm.
 */

export function cacheFolder(environment: NodeJS.ProcessEnv = process.env, home: string = os.homedir()): string {
  if (environment.TONY_CACHE_DIR) return path.resolve(environment.TONY_CACHE_DIR);
  // The XDG base directory specification: a relative path is to be ignored.
  const xdg = environment.XDG_CACHE_HOME;
  return path.join(xdg && path.isAbsolute(xdg) ? xdg : path.join(home, '.cache'), 'tony-ts');
}

export function runtimesFolder(environment?: NodeJS.ProcessEnv): string {
  return path.join(cacheFolder(environment), 'runtime');
}

/** A new folder for a build, beside the finished ones so that a rename can publish it. Removes what builds that died have left. */
export async function openBuildFolder(runtimes: string): Promise<string> {
  await mkdir(runtimes, { recursive: true });
  for (const name of await readdir(runtimes)) {
    const owner = /^\.build-(.+)-(\d+)-[0-9a-f]+$/.exec(name);
    if (owner === null || !isGone(owner[1] ?? '', Number(owner[2]))) continue;
    // A download that outlived its builder may still write there: then the build after this one removes it.
    await rm(path.join(runtimes, name), { recursive: true, force: true }).catch(() => {});
  }
  const folder = path.join(runtimes, `.build-${os.hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`);
  await mkdir(folder, { mode: 0o755 });
  return folder;
}

/** Makes a finished folder visible under its final name; false when another builder was first. */
export async function publish(folder: string, final: string): Promise<boolean> {
  try {
    await rename(folder, final);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Waits until nobody else is building `key`, then runs `work` as its builder.
 * @param waiting is called once, when there is somebody to wait for
 */
export async function asOnlyBuilder<T>(runtimes: string, key: string, waiting: (pid: number) => void, work: () => Promise<T>): Promise<T> {
  await mkdir(runtimes, { recursive: true });
  const lock = path.join(runtimes, `.lock-${key}`);
  let told = false;
  while (!(await createWhole(lock, `${os.hostname()} ${process.pid}`))) {
    const [host = '', pid = ''] = await readFile(lock, 'utf8').then(
      (text) => text.split(' '),
      () => [],
    );
    if (host !== '' && isGone(host, Number(pid))) {
      await rm(lock, { force: true });
      continue;
    }
    if (!told && pid !== '') {
      told = true;
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

/** Whether a process surely runs no more; of other machines (a home folder may be shared) nothing is known. */
function isGone(host: string, pid: number): boolean {
  if (host !== os.hostname()) return false;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}
