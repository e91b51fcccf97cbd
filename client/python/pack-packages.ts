import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { PACKAGES_FILE, type PackagesDescription } from '../../platform/python-packages.ts';
import { packFolder } from '../runtime/archive.ts';
import type { ProgressWriter } from '../runtime/progress.ts';

/** Writes packages.json into a folder tree of unpacked packages. */
export async function describeTree(tree: string, description: PackagesDescription): Promise<void> {
  await writeFile(path.join(tree, PACKAGES_FILE), `${JSON.stringify(description, null, 2)}\n`);
}

/** Packs `folder`/tree as `folder`/NAME.tar.gz, and writes the description, the archive's checksum and its size to NAME.json. */
export async function packPackages<T extends object>(folder: string, name: string, description: T, say: ProgressWriter): Promise<void> {
  const archive = await packFolder(path.join(folder, 'tree'), path.join(folder, `${name}.tar.gz`));
  say(`packed the archive: ${(archive.size / 1e6).toFixed(0)} MB`);
  await writeFile(path.join(folder, `${name}.json`), `${JSON.stringify({ ...description, ...archive }, null, 2)}\n`);
}
