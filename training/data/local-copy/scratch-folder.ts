import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { CONTAINER_LAYOUT } from '../../../conf/job.ts';
import { TASK_ENVIRONMENT } from '../../../contract/process/task-environment.ts';

const PREFIX = '.tony-ts-dataset-';

const folders = new Set<string>();

/**
 * Creates the folder for the program's large temporary files. Returns the folder's path, or null outside a job. Unlike the working
 * directory, the folder is kept when the program restarts in the same container. YARN removes the folder together with the container.
 */
export async function containerScratch(): Promise<string | null> {
  const taskFile = process.env[TASK_ENVIRONMENT.taskFile] ?? '';
  if (taskFile === '') {
    return null;
  }
  const folder = join(dirname(taskFile), CONTAINER_LAYOUT.scratch);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}

/**
 * Creates a temporary folder in `place`, and removes the folder when the program exits. If the program is killed, the next program that
 * calls this function with the same `place` removes the folder.
 * @param place Default: the container's folder or, outside a job, the machine's temporary folder.
 */
export async function createScratchFolder(place?: string): Promise<string> {
  const scratch = place ?? (await containerScratch());
  if (scratch !== null) {
    await removeLeftovers(scratch);
  }
  const folder = await mkdtemp(join(scratch ?? tmpdir(), `${PREFIX}${process.pid}-`));
  removeAtEnd(folder);
  return folder;
}

async function removeLeftovers(scratch: string): Promise<void> {
  const dead = (await readdir(scratch)).filter(
    (name) => name.startsWith(PREFIX) && !isAlive(Number(name.slice(PREFIX.length).split('-')[0])),
  );
  await Promise.all(dead.map((name) => rm(join(scratch, name), { recursive: true, force: true })));
}

export function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) {
    return false;
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

export function removeAtEnd(folder: string): void {
  if (folders.size === 0) {
    process.on('exit', removeFolders);
  }
  folders.add(folder);
}

export async function removeScratchFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  folders.delete(folder);
  if (folders.size === 0) {
    process.off('exit', removeFolders);
  }
}

function removeFolders(): void {
  for (const folder of folders) {
    rmSync(folder, { recursive: true, force: true });
  }
}
