/** The Python and the platform for which packages are chosen. */
export interface Target {
  /** For example `3.11`. */
  readonly version: string;
  /** Machine type as in Python's `platform.machine()`. */
  readonly machine: string;
  /** The version of glibc on the nodes. */
  readonly glibc: string;
}

/** The first version of glibc with its own platform name, and the older names (PEP 600). */
const FIRST_MINOR = 5;
const OLDER_NAMES: Readonly<Record<number, string>> = { 17: 'manylinux2014', 12: 'manylinux2010', 5: 'manylinux1' };

/** Returns the names of all platforms whose wheels the target can load, the newest first. */
export function platformTags({ machine, glibc }: Target): string[] {
  const newest = Number(glibc.split('.')[1]);
  const tags: string[] = [];
  for (let minor = newest; minor >= FIRST_MINOR; minor--) {
    tags.push(`manylinux_2_${minor}_${machine}`);
    const older = OLDER_NAMES[minor];
    if (older !== undefined) {
      tags.push(`${older}_${machine}`);
    }
  }
  return [...tags, `linux_${machine}`];
}
