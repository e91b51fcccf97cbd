export interface StoredFile {
  /** The path relative to the mirrored folder, separated by `/`. */
  readonly name: string;
  readonly uri: string;
  readonly size: number;
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number;
}

export interface MirrorLimits {
  /** The maximum number of files and folders in a listing. */
  readonly files: number;
  readonly depth: number;
  /** The maximum total size on disk, in bytes. */
  readonly bytes: number;
  /** The maximum size in bytes of a file without events, such as a sprite image for the Embedding Projector. */
  readonly otherBytes: number;
  /**
   * The number of bytes at the end of the copy that the mirror compares with the file, to detect a replaced file. Two different files
   * differ in these bytes, because each event contains its time and checksums.
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
  readonly removed: readonly string[];
  readonly folders: readonly (readonly StoredFile[])[];
  /** The reason why some files are not copied, or an empty string if all files are copied. */
  readonly refusal: string;
}

/** Computes which files to remove and which to read. If the space is limited, event files take precedence. */
export function planOf(
  found: readonly StoredFile[],
  copies: ReadonlyMap<string, { readonly bytes: number; readonly modifiedAt: number }>,
  limits: MirrorLimits,
): MirrorPlan {
  const wanted = found.filter((file) => isEventFile(file.name) || (file.size <= limits.otherBytes && isFinished(file.name)));
  const names = new Set(wanted.map(({ name }) => name));
  const removed = [...copies.keys()].filter((name) => !names.has(name));
  const folders = new Map<string, StoredFile[]>();
  let bytes = 0;
  let omitted = 0;
  // Files that are already copied come first, then the newest files.
  const order = wanted.toSorted((a, b) => rank(a, copies) - rank(b, copies) || b.modifiedAt - a.modifiedAt);
  for (const file of order) {
    if (bytes + file.size > limits.bytes) {
      omitted += file.size;
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
  return { removed, folders: sorted, refusal: omitted === 0 ? '' : refusal(bytes, omitted, limits) };
}

function rank(file: StoredFile, copies: ReadonlyMap<string, unknown>): number {
  return (isEventFile(file.name) ? 0 : 2) + (copies.has(file.name) ? 0 : 1);
}

function refusal(bytes: number, omitted: number, limits: MirrorLimits): string {
  return `The summaries are larger than the ${gigabytes(limits.bytes)} that TensorBoard copies to its disk: ${gigabytes(bytes)} are shown, ${gigabytes(omitted)} are not.`;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

function isEventFile(name: string): boolean {
  return name.slice(name.lastIndexOf('/') + 1).includes('tfevents');
}

/** Returns false for a file that Hadoop or tony-ts is still writing. */
function isFinished(name: string): boolean {
  const last = name.slice(name.lastIndexOf('/') + 1);
  return !last.startsWith('.') && !last.endsWith('._COPYING_');
}

/** Returns true if the name is a single path segment, so that it cannot leave the folder. */
export function isSafeName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}
