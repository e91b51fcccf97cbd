import { chmod, mkdir, readdir, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { copyTree } from '../../platform/files/copy-tree.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';

/*
 * Each run of the user's program gets its own working directory, `<container>/program/<generation>`. This is a copy of
 * `<container>/source`, which is a link into the NodeManager's cache. The user's containers and jobs on that node share the cache, so a
 * program that wrote there would change the files of later jobs. Files and archives that job.yaml lists may be large, so the working
 * directory contains only links to them.
 */

/**
 * Creates a generation's working directory, and removes the working directories of earlier generations.
 * @param container absolute path of the container's working directory
 * @param source absolute path of the localised source, or null for an empty working directory
 * @param onLeftOver receives each earlier directory that cannot be removed; YARN removes the directory with the container
 * @returns absolute path of the new working directory
 */
export async function createProgramFolder(
  container: string,
  generation: number,
  source: string | null,
  onLeftOver: (folder: string, error: unknown) => void,
): Promise<string> {
  const parent = path.join(container, CONTAINER_LAYOUT.program);
  const folder = path.join(parent, String(generation));
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const earlier = (await readdir(parent)).map((name) => path.join(parent, name));
  await Promise.all(earlier.map((each) => removeTree(each).catch((error: unknown) => onLeftOver(each, error))));
  await mkdir(folder, { mode: 0o700 });
  if (source !== null) {
    await copyTree(source, folder);
  }
  const files = path.join(container, CONTAINER_LAYOUT.files);
  for (const name of await readdir(files).catch(ifMissing([]))) {
    await symlink(path.relative(folder, path.join(files, name)), path.join(folder, name));
  }
  return folder;
}

/**
 * Empties the folder for the program's temporary files, which YARN removes with the container, even if the program is killed.
 * @param container absolute path of the container's working directory, which is also the executor's
 * @returns the value of TMPDIR. The path leads through /proc, because programs create Unix sockets in TMPDIR, the kernel limits a socket's
 * path to 108 bytes, and the path of a container is longer than that.
 */
export async function emptyTemporaryFolder(container: string, onLeftOver: (folder: string, error: unknown) => void): Promise<string> {
  const folder = path.join(container, CONTAINER_LAYOUT.temporary);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const earlier = (await readdir(folder)).map((name) => path.join(folder, name));
  await Promise.all(earlier.map((each) => removeTree(each).catch((error: unknown) => onLeftOver(each, error))));
  return `/proc/${process.pid}/cwd/${CONTAINER_LAYOUT.temporary}`;
}

/** Removes a folder. If this fails, restores the write permission, which a program may have removed, and tries again. */
async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    await makeWritable(folder);
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function makeWritable(folder: string): Promise<void> {
  await chmod(folder, 0o700);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) {
      await makeWritable(path.join(folder, entry.name));
    }
  }
}
