/** Python version and platform for which packages are downloaded. */
export interface Target {
  /** For example `3.11`. */
  readonly version: string;
  /** Machine type as returned by Python's `platform.machine()`. */
  readonly machine: string;
  /** glibc version on the nodes. */
  readonly glibc: string;
}

/** Oldest glibc 2.x version for which wheels exist. */
const FIRST_MINOR = 5;
/** glibc 2.x minor versions that older platform names stand for (PEP 600). For example, manylinux2014 stands for glibc 2.17. */
export const OLDER_PLATFORMS: Readonly<Record<string, number>> = { manylinux1: 5, manylinux2010: 12, manylinux2014: 17 };

/** Returns the names of all platforms whose wheels the target can load, newest first. */
export function platformTags({ machine, glibc }: Target): string[] {
  const newest = Number(glibc.split('.')[1]);
  const tags: string[] = [];
  for (let minor = newest; minor >= FIRST_MINOR; minor--) {
    tags.push(`manylinux_2_${minor}_${machine}`);
    const older = Object.keys(OLDER_PLATFORMS).filter((name) => OLDER_PLATFORMS[name] === minor);
    tags.push(...older.map((name) => `${name}_${machine}`));
  }
  return [...tags, `linux_${machine}`];
}
