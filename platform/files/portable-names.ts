import { readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { ifMissing } from './if-missing.ts';

/*
 * NodeManagers unpack archives with Java. In the C locale, Java rejects every path with a character outside ASCII, and YARN's native library
 * rejects characters outside Unicode's first plane, such as emoji, in every locale. The archive of a job's source therefore contains a
 * placeholder for each such name, and one file that maps the placeholders to the names. Executors restore the names in each program's own
 * copy of the source.
 */

/** The file at the root of an archive that lists its original names. */
export const NAMES_FILE = '.tony-ts-names.json';
const PLACEHOLDER = '.tony-ts-name-';

export interface OriginalNames {
  /** The name that placeholder number `n` stands for is at position `n`. */
  readonly names: readonly string[];
  /** Links whose targets contain such names. Paths contain placeholders, targets contain the original names. */
  readonly links: readonly { readonly path: string; readonly target: string }[];
}

/** Replaces names that not every NodeManager can unpack. A name that looks like a placeholder is replaced too. */
export class PortableNames {
  readonly #numbers = new Map<string, number>();

  /** Returns the path with placeholders. Different names have different placeholders. */
  pathOf(original: string): string {
    return original
      .split('/')
      .map((name) => (isPortable(name) ? name : this.#placeholder(name)))
      .join('/');
  }

  get names(): readonly string[] {
    return [...this.#numbers.keys()];
  }

  #placeholder(name: string): string {
    const number = this.#numbers.get(name) ?? this.#numbers.size;
    this.#numbers.set(name, number);
    return `${PLACEHOLDER}${number}`;
  }
}

export function isPortable(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: every ASCII character is portable.
  return /^[\x00-\x7f]*$/.test(name) && !name.startsWith(PLACEHOLDER) && name !== NAMES_FILE;
}

/** Restores the original names in a copy of an unpacked archive. Does nothing if the archive contains only portable names. */
export async function restoreNames(folder: string): Promise<void> {
  const file = path.join(folder, NAMES_FILE);
  const text = await readFile(file, 'utf8').catch(ifMissing(null));
  if (text === null) {
    return;
  }
  const { names, links } = JSON.parse(text) as OriginalNames;
  await rm(file);
  // Create the links while the folders still have the paths of the archive.
  for (const link of links) {
    await symlink(link.target, path.join(folder, link.path));
  }
  await renameBelow(folder, names);
}

async function renameBelow(folder: string, names: readonly string[]): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const before = path.join(folder, entry.name);
    if (entry.isDirectory()) {
      await renameBelow(before, names);
    }
    const name = entry.name.startsWith(PLACEHOLDER) ? names[Number(entry.name.slice(PLACEHOLDER.length))] : undefined;
    if (name !== undefined) {
      await rename(before, path.join(folder, name));
    }
  }
}
