import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { TASK_ENVIRONMENT } from '../task-context.ts';

const folders = new Set<string>();

/**
 * Where large things may be put for as long as the program runs: in its container's folder, which goes with the container however that ends. (Not in
 * the working directory: that is the job's source, which containers share.) null when the program runs alone.
 */
export async function containerScratch(): Promise<string | null> {
  const taskFile = process.env[TASK_ENVIRONMENT.taskFile] ?? '';
  if (taskFile === '') return null;
  const folder = join(dirname(taskFile), CONTAINER_LAYOUT.scratch);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}

/** A new folder in `place`, in the container's or in the machine's temporary one, that is removed when the program ends by itself. */
export async function createScratchFolder(place?: string): Promise<string> {
  const folder = await mkdtemp(join(place ?? (await containerScratch()) ?? tmpdir(), '.tony-ts-dataset-'));
  removeAtEnd(folder);
  return folder;
}

export function removeAtEnd(folder: string): void {
  if (folders.size === 0) process.on('exit', removeFolders);
  folders.add(folder);
}

export async function removeScratchFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  folders.delete(folder);
  if (folders.size === 0) process.off('exit', removeFolders);
}

function removeFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
