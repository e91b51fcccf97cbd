/** A file of the storage. */
export interface Found {
  /** Relative to the mirrored folder, with `/`. */
  readonly name: string;
  readonly uri: string;
  readonly size: number;
  /** ms since the epoch. */
  readonly modifiedAt: number;
}

export type Wanted = Found;

export interface MirrorLimits {
  /** Files and folders that are looked at. */
  readonly files: number;
  readonly depth: number;
  /** On disk, in all. */
  readonly bytes: number;
  /** Of a file that holds no events: pictures of the embedding projector and the like. */
  readonly otherBytes: number;
  /** So much of what is on disk already is read again, to see that the file is still the same: each event carries its time and sums. */
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
  /** Names on disk that the storage has no more. */
  readonly gone: readonly string[];
  /** What to read, folder by folder, in the order of names. */
  readonly folders: readonly (readonly Wanted[])[];
  /** A sentence when not all is copied. */
  readonly refusal: string;
}

/** What differs between the storage and the disk. Event files come first where not all has room. */
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
  // Runs that are copied already stay whole; then the newest are what people want to see.
  const order = wanted.toSorted((a, b) => rank(a, copies) - rank(b, copies) || b.modifiedAt - a.modifiedAt);
  for (const file of order) {
    if (bytes + file.size > limits.bytes) {
      left += file.size;
      continue;
    }
    bytes += file.size;
    const copy = copies.get(file.name);
    if (copy !== undefined && copy.bytes === file.size && copy.modifiedAt === file.modifiedAt) continue;
    const folder = file.name.slice(0, Math.max(0, file.name.lastIndexOf('/')));
    const files = folders.get(folder);
    if (files === undefined) folders.set(folder, [file]);
    else files.push(file);
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

/** TensorBoard's own rule. */
export function isEventFile(name: string): boolean {
  return name.slice(name.lastIndexOf('/') + 1).includes('tfevents');
}

/** Not what a writer (of Hadoop, of this project) is still busy with. */
function isFinished(name: string): boolean {
  const last = name.slice(name.lastIndexOf('/') + 1);
  return !last.startsWith('.') && !last.endsWith('._COPYING_');
}

/** One name of one entry: nothing that leads elsewhere. */
export function isSafeName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}
