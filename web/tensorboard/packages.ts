import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { messageOf } from '../../platform/errors.ts';

export const PACKAGES_FILE = 'packages.json';

/** The contents of packages.json, in a folder with TensorBoard and all of its dependencies. */
export interface PackagesDescription {
  readonly tensorboard: string;
  /** The machine type as in Python's `platform.machine()`, for example `x86_64`. */
  readonly machine: string;
  /** The folders to import from by Python version (`3.11`), relative to packages.json. */
  readonly pythons: Readonly<Record<string, readonly string[]>>;
}

/** TensorBoard's packages on this machine, by Python version. */
export interface Packages {
  readonly tensorboard: string;
  readonly machine: string;
  /** The absolute paths of the folders to import from, by Python version. */
  readonly pythons: ReadonlyMap<string, readonly string[]>;
}

/** Returns the packages, or a message that states why the folder has none. */
export async function readPackages(folder: string): Promise<Packages | string> {
  try {
    const { tensorboard, machine, pythons } = JSON.parse(await readFile(path.join(folder, PACKAGES_FILE), 'utf8')) as PackagesDescription;
    const absolute = Object.entries(pythons).map(
      ([version, folders]) => [version, folders.map((each) => path.resolve(folder, each))] as const,
    );
    return { tensorboard, machine, pythons: new Map(absolute) };
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return missing ? 'The job does not include TensorBoard.' : `TensorBoard's packages cannot be read: ${messageOf(error)}.`;
  }
}
