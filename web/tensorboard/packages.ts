import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { messageOf } from '../../conf/errors.ts';

/** Beside the Python packages: what they are for. */
export const PACKAGES_FILE = 'packages.json';

/** packages.json of a folder with TensorBoard and all that it imports. */
export interface PackagesDescription {
  /** TensorBoard's version. */
  readonly tensorboard: string;
  /** As Python's platform.machine() says it: `x86_64`, `aarch64`. */
  readonly machine: string;
  /** By Python's version (`3.11`): the folders to import from, relative to packages.json. */
  readonly pythons: Readonly<Record<string, readonly string[]>>;
}

/** TensorBoard's packages on this machine, for the versions of Python that they are for. */
export interface Packages {
  readonly tensorboard: string;
  readonly machine: string;
  /** Absolute paths of folders. */
  readonly pythons: ReadonlyMap<string, readonly string[]>;
}

/** A sentence says what is wrong with a folder without them. */
export async function readPackages(folder: string): Promise<Packages | string> {
  try {
    const { tensorboard, machine, pythons } = JSON.parse(await readFile(path.join(folder, PACKAGES_FILE), 'utf8')) as PackagesDescription;
    const absolute = Object.entries(pythons).map(
      ([version, folders]) => [version, folders.map((each) => path.resolve(folder, each))] as const,
    );
    return { tensorboard, machine, pythons: new Map(absolute) };
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return missing ? 'TensorBoard did not come with the job.' : `The packages of TensorBoard cannot be read: ${messageOf(error)}.`;
  }
}
