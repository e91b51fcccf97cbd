import { copyFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { localFileError } from '../files/local-file-error.ts';
import { refuseFolder } from '../files/write-new-file.ts';
import type { Runtime } from './ensure-runtime.ts';

/**
 * Builds a runtime and copies its archive to a file, which is overwritten. Checks the file first, because a build takes minutes.
 * @returns the absolute path of the file
 * @throws TonyError ALREADY_EXISTS, ACCESS_DENIED, STORAGE_DENIED, RUNTIME_*
 */
export async function buildTo(to: string, build: () => Promise<Runtime>): Promise<string> {
  const output = path.resolve(to);
  const partial = await reservePlace(output);
  try {
    return await copyArchive(await build(), partial, output);
  } finally {
    await rm(partial, { force: true });
  }
}

/** Creates an empty temporary file beside `output`, to find out before the build whether the archive can be written there. */
async function reservePlace(output: string): Promise<string> {
  const partial = `${output}.${process.pid}.partial`;
  await toPlace(output, async () => {
    await makeFolders(path.dirname(output));
    await refuseFolder(output);
    await writeFile(partial, '');
  });
  return partial;
}

/** Copies the archive to a temporary file and renames it, so that `output` is never incomplete. */
async function copyArchive(runtime: Runtime, partial: string, output: string): Promise<string> {
  await toPlace(output, async () => {
    await copyFile(runtime.archive, partial);
    await rename(partial, output);
  });
  return output;
}

async function toPlace(output: string, write: () => Promise<void>): Promise<void> {
  try {
    await write();
  } catch (error) {
    throw localFileError(error, `write the archive to ${output}`) ?? error;
  }
}
