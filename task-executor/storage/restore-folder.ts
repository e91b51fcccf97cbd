import { lstat, mkdir, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import type { RestoredCheckpoint } from './file-checkpoints.ts';
import { markerOf } from './local-versions.ts';

/**
 * Creates an empty `checkpoint.sync` folder in the program's working directory.
 * @param sync relative path of the folder
 * @returns absolute path of the folder
 * @throws TonyError CHECKPOINT_FAILED if a symbolic link makes the path lead out of the working directory
 */
export async function createSyncFolder(workingDirectory: string, sync: string): Promise<string> {
  const root = await realpath(workingDirectory);
  let parent = root;
  for (const name of path
    .dirname(sync)
    .split('/')
    .filter((each) => each !== '.')) {
    parent = path.join(parent, name);
    await mkdir(parent, { recursive: true });
    if (!(await lstat(parent)).isDirectory()) {
      throw new TonyError('CHECKPOINT_FAILED', `checkpoint.sync leads through the symbolic link ${path.relative(root, parent)}`, {
        hint: 'Choose another folder, because tony-ts empties this one.',
      });
    }
  }
  const folder = path.join(root, sync);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  return folder;
}

/** Moves a checkpoint's local copy to the `checkpoint.sync` folder under the version's name, and then creates the version's marker. */
export async function placeVersion({ step, folder: copy, target }: RestoredCheckpoint, folder: string): Promise<void> {
  // If the version is a single file, `target` is empty.
  const [file = ''] = target === '' ? await readdir(copy) : [];
  const name = target === '' ? file : (target ?? `step-${step}`);
  await rename(path.join(copy, file), path.join(folder, name));
  await writeFile(path.join(folder, markerOf(name)), '');
}
