import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { CONTAINER_LAYOUT } from '../../../conf/job.ts';
import { TASK_ENVIRONMENT } from '../../process/task-context.ts';

const PREFIX = '.tony-ts-dataset-';

const folders = new Set<string>();

/**
 * Creates the folder for the program's large temporary files and returns the folder's path; null outside a job. The folder is inside the
 * container's folder, which YARN removes with the container. Unlike the working directory, it survives a program restart in the same
 * container.
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
 * Creates a folder in `place`, which defaults to the container's folder or, outside a job, to the machine's temporary folder. Removes the
 * folder when the program exits. If the program is killed, the folder remains until a later program calls this function with the same
 * `place`.
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
