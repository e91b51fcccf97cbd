import { link, lstat, mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';
import { listFiles } from '../../storage/copy-files.ts';

/*
 * Reads a program's `checkpoint.sync` folder. Each version of the program's state is a file or folder. After the program has written a
 * version called NAME, it creates a marker file called NAME.done, and no longer changes the version.
 */

const MARKER = '.done';
const LONGEST_NAME = 200;

/** The error for a version that cannot be stored. The program can correct the version and create the marker again. */
export class InvalidVersion extends TonyError {
  constructor(message: string, hint?: string) {
    super('CHECKPOINT_FAILED', message, hint === undefined ? {} : { hint });
  }
}

/** A version that the program has marked as complete. */
export interface LocalVersion {
  readonly name: string;
  readonly step: number;
  /** The marker's modification time in ns since the epoch. */
  readonly markedAt: bigint;
}

export function markerOf(name: string): string {
  return `${name}${MARKER}`;
}

/** Returns true if an entry with this name can be a version. Names that begin with a dot are the program's temporary files. */
export function isVersionName(name: string): boolean {
  return /^[^./\0][^/\0]*$/.test(name) && Buffer.byteLength(name) <= LONGEST_NAME && !name.endsWith(MARKER);
}

/** Returns the last number in the name, or null if there is none. A number in the extension counts only if there is no other number. */
export function stepOf(name: string): number | null {
  const stem = name.slice(0, name.length - path.extname(name).length);
  const digits = stem.match(/\d+/g)?.at(-1) ?? name.match(/\d+/g)?.at(-1);
  return digits !== undefined && Number.isSafeInteger(Number(digits)) ? Number(digits) : null;
}

/**
 * Lists the versions that have a marker, highest step first.
 * @param onIgnored receives the name of each marked version whose name contains no step.
 */
export async function markedVersions(folder: string, onIgnored: (name: string) => void): Promise<LocalVersion[]> {
  const names = new Set(await readdir(folder).catch(ifMissing<string[]>([])));
  const marked = [...names].filter((name) => isVersionName(name) && names.has(markerOf(name)));
  const versions: LocalVersion[] = [];
  for (const name of marked) {
    const step = stepOf(name);
    const marker = await lstat(path.join(folder, markerOf(name)), { bigint: true }).catch(ifMissing(null));
    if (step === null) {
      onIgnored(name);
    } else if (marker !== null) {
      versions.push({ name, step, markedAt: marker.mtimeNs });
    }
  }
  return versions.sort((a, b) => b.step - a.step || (a.name < b.name ? -1 : 1));
}

/** A version that can be stored even if the program removes its files, because `folder` contains hard links to them. */
export interface StagedVersion {
  /** Absolute path of the folder that contains the checkpoint's files. */
  readonly folder: string;
  /** See RestoredCheckpoint. */
  readonly target: string;
  /** Rejects if the program has changed one of the files since the version was staged. */
  readonly verify: () => Promise<void>;
}

/**
 * @param into path of a folder that does not exist yet, on the same file system
 * @returns null if the program has removed the version
 * @throws InvalidVersion, for example if a file is newer than the marker
 */
export async function stageVersion(folder: string, version: LocalVersion, into: string): Promise<StagedVersion | null> {
  const source = path.join(folder, version.name);
  try {
    const isFolder = (await lstat(source)).isDirectory();
    const target = isFolder ? version.name : '';
    const files = isFolder ? await filesOf(folder, version.name) : [version.name];
    await mkdir(into, { recursive: true, mode: 0o700 });
    for (const file of files) {
      await mkdir(path.dirname(path.join(into, file)), { recursive: true });
      await link(path.join(folder, file), path.join(into, file));
    }
    const before = await fingerprint(into, files, version);
    const verify = async (): Promise<void> => {
      if ((await fingerprint(into, files, version)) !== before) {
        throw changed(version);
      }
    };
    return { folder: path.join(into, target), target, verify };
  } catch (error) {
    return ifMissing(null)(error as NodeJS.ErrnoException);
  }
}

async function filesOf(folder: string, name: string): Promise<string[]> {
  const files = await listFiles(path.join(folder, name)).catch((error: unknown) => {
    throw error instanceof TonyError ? new InvalidVersion(error.message) : error;
  });
  if (files.length === 0) {
    throw new InvalidVersion(`${name} contains no files`);
  }
  return files.map((file) => path.join(name, file));
}

/** @throws InvalidVersion if a file is newer than the marker or is not a regular file */
async function fingerprint(folder: string, files: readonly string[], version: LocalVersion): Promise<string> {
  const parts: string[] = [];
  for (const file of files) {
    const stats = await lstat(path.join(folder, file), { bigint: true });
    if (!stats.isFile()) {
      throw new InvalidVersion(`${file} is neither a file nor a folder`);
    }
    if (stats.mtimeNs > version.markedAt) {
      throw changed(version);
    }
    parts.push(`${file} ${stats.size} ${stats.mtimeNs}`);
  }
  return parts.join('\n');
}

function changed({ name }: LocalVersion): InvalidVersion {
  const marker = markerOf(name);
  const hint = `Create ${marker} after the last write to ${name}, and do not change ${name} afterwards.`;
  return new InvalidVersion(`${name} changed after ${marker} was created`, hint);
}
