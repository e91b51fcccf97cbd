import path from 'node:path';
import { messageOf } from './errors.ts';
import { readIfExists } from './files/read-if-exists.ts';

export const PACKAGES_FILE = 'packages.json';

/** Content of packages.json in a folder of unpacked Python packages. */
export interface PackagesDescription {
  /** Name for the packages in messages. */
  readonly title: string;
  /** Machine type as returned by Python's `platform.machine()`, for example `x86_64`. Null if the packages contain no native code. */
  readonly machine: string | null;
  /**
   * Folders from which Python imports the packages, keyed by Python version, for example `3.11`. The paths are relative to packages.json.
   */
  readonly pythons: Readonly<Record<string, readonly string[]>>;
}

/** Python packages on this machine. */
export interface Packages {
  readonly title: string;
  readonly machine: string | null;
  /** Absolute paths of the folders from which Python imports the packages, keyed by Python version. */
  readonly pythons: ReadonlyMap<string, readonly string[]>;
}

/** Returns the packages in a folder, or null if there are none. If they cannot be read, returns a message with the reason. */
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
