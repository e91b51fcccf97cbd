import path from 'node:path';
import { messageOf } from '../errors.ts';
import { readIfExists } from '../files/read-if-exists.ts';

export const PACKAGES_FILE = 'packages.json';

/** The contents of packages.json, in a folder with unpacked Python packages. */
export interface PackagesDescription {
  /** Name to use for the packages in messages. */
  readonly title: string;
  /** The machine type as in Python's `platform.machine()`, for example `x86_64`; null if the packages contain no native code. */
  readonly machine: string | null;
  /** The folders to import from by Python version (`3.11`), relative to packages.json. */
  readonly pythons: Readonly<Record<string, readonly string[]>>;
}

/** Python packages on this machine, by Python version. */
export interface Packages {
  readonly title: string;
  readonly machine: string | null;
  /** The absolute paths of the folders to import from, by Python version. */
  readonly pythons: ReadonlyMap<string, readonly string[]>;
}

/** Returns the packages, or null if the folder has none. If they cannot be read, returns a message that states why. */
export async function readPackages(folder: string): Promise<Packages | string | null> {
  const file = path.join(folder, PACKAGES_FILE);
  try {
    const text = await readIfExists(file);
    if (text === null) {
      return null;
    }
    const { title, machine, pythons } = JSON.parse(text) as PackagesDescription;
    const absolute = Object.entries(pythons).map(
      ([version, folders]) => [version, folders.map((each) => path.resolve(folder, each))] as const,
    );
    return { title, machine, pythons: new Map(absolute) };
  } catch (error) {
    return `The Python packages cannot be read: ${file}: ${messageOf(error)}.`;
  }
}
