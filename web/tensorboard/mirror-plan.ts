/** A file in the storage. */
export interface Found {
  /** Path relative to the mirrored folder, separated by `/`. */
  readonly name: string;
  readonly uri: string;
  readonly size: number;
  /** ms since the epoch. */
  readonly modifiedAt: number;
}

export type Wanted = Found;

export interface MirrorLimits {
  /** The maximum number of files and folders in a listing. */
  readonly files: number;
  readonly depth: number;
  /** The maximum total size on disk. */
  readonly bytes: number;
  /** The maximum size of a file that holds no events, such as pictures of the embedding projector. */
  readonly otherBytes: number;
  /**
   * The number of bytes on disk that are read again to verify that the file is still the same. If another file has replaced it, these bytes
   * differ, because each event carries its time and checksums.
   */
  readonly overlapBytes: number;
}

export const MIRROR_LIMITS: MirrorLimits = {
  files: 50_000,
  depth: 16,
  bytes: 16 * 1024 ** 3,
  otherBytes: 64 * 1024 ** 2,
  overlapBytes: 64,
};

export interface MirrorPlan {
  /** Names of files on disk that no longer exist in the storage. */
  readonly gone: readonly string[];
  /** The files to read, by folder, in the order of their names. */
  readonly folders: readonly (readonly Wanted[])[];
  /** Why some files are not copied; empty if all are. */
  readonly refusal: string;
}

/** Computes the differences between the storage and the disk. Event files take precedence if the space is limited. */
export function planOf(
  found: readonly Found[],
  copies: ReadonlyMap<string, { readonly bytes: number; readonly modifiedAt: number }>,
  limits: MirrorLimits,
): MirrorPlan {
  const wanted = found.filter((file) => isEventFile(file.name) || (file.size <= limits.otherBytes && isFinished(file.name)));
  const names = new Set(wanted.map(({ name }) => name));
  const gone = [...copies.keys()].filter((name) => !names.has(name));
  const folders = new Map<string, Wanted[]>();
  let bytes = 0;
  let left = 0;
  // Runs that are already copied come first, then the newest ones.
  const order = wanted.toSorted((a, b) => rank(a, copies) - rank(b, copies) || b.modifiedAt - a.modifiedAt);
  for (const file of order) {
    if (bytes + file.size > limits.bytes) {
      left += file.size;
      continue;
    }
    bytes += file.size;
    const copy = copies.get(file.name);
    if (copy !== undefined && copy.bytes === file.size && copy.modifiedAt === file.modifiedAt) {
      continue;
    }
    const folder = file.name.slice(0, Math.max(0, file.name.lastIndexOf('/')));
    const files = folders.get(folder);
    if (files === undefined) {
      folders.set(folder, [file]);
    } else {
      files.push(file);
    }
  }
  const sorted = [...folders.values()].map((files) => files.sort((a, b) => (a.name < b.name ? -1 : 1)));
  return { gone, folders: sorted, refusal: left === 0 ? '' : refusal(bytes, left, limits) };
}

function rank(file: Found, copies: ReadonlyMap<string, unknown>): number {
  return (isEventFile(file.name) ? 0 : 2) + (copies.has(file.name) ? 0 : 1);
}

function refusal(bytes: number, left: number, limits: MirrorLimits): string {
  return `The summaries are larger than the ${gigabytes(limits.bytes)} that TensorBoard copies to its disk: ${gigabytes(bytes)} are shown, ${gigabytes(left)} are not.`;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

/** TensorBoard's own definition of an event file. */
export function isEventFile(name: string): boolean {
  return name.slice(name.lastIndexOf('/') + 1).includes('tfevents');
}

/** Excludes files that Hadoop or tony-ts is still writing. */
function isFinished(name: string): boolean {
  const last = name.slice(name.lastIndexOf('/') + 1);
  return !last.startsWith('.') && !last.endsWith('._COPYING_');
}

/** Whether the name is a single path segment that stays within its folder. */
export function isSafeName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}
