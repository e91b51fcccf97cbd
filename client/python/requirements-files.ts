import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { hashFile } from '../job/source-archive.ts';
import { withoutLogins } from '../runtime/tool.ts';
import { parseRequirementLine } from './requirement-line.ts';

/** Requirements file that job.yaml specifies as `python.requirements`. */
export interface RequirementsFile {
  readonly file: string;
  /** Format of the file: `requirements` for a pip requirements file, `pyproject` for pyproject.toml, or `lock` for uv.lock. */
  readonly kind: 'requirements' | 'pyproject' | 'lock';
  /** Lines for pip. Empty for pyproject.toml and uv.lock. */
  readonly lines: PipLines;
  /** SHA-256 digests of the requirements file, the files that it includes, and the local wheels that it references. */
  readonly digests: readonly string[];
}

export interface PipLines {
  readonly requirements: readonly string[];
  readonly constraints: readonly string[];
}

const MOST_FILES = 100;
const MOST_BYTES = 16 * 1024 * 1024;
/** Python ends lines at some control characters too. Other control characters have no meaning in a requirements file. */
const LINE_END = /\r\n|[^\P{Cc}\t]|[\u2028\u2029]/u;
/** Matches a conda environment file. */
const CONDA = /\.ya?ml$/;
/**
 * Matches a user name or password in a URL. Does not match variables, as in `https://me:${PASSWORD}@` and `https://${TOKEN}@`, because pip
 * replaces them.
 */
const LOGIN = /https?:\/\/(?!(?:[^\s/@:]*:)?\$\{[A-Z0-9_]+\}@)[^\s/@"']+@/;

/**
 * Reads a requirements file, pyproject.toml or uv.lock, and every file that a requirements file includes.
 * @throws TonyError SOURCE_NOT_FOUND, PYTHON_PACKAGES_NOT_FOUND
 */
export async function readRequirements(file: string): Promise<RequirementsFile> {
  const name = path.basename(file);
  const kind = name === 'pyproject.toml' ? 'pyproject' : name === 'uv.lock' ? 'lock' : 'requirements';
  const digests = new Map<string, string>();
  const lines = { requirements: [], constraints: [] };
  await addFile(file, { kind, folder: path.dirname(file), digests, lines, visited: new Set() }, 'requirements');
  return { file, kind, digests: [...digests.values()], lines };
}

function isMany(digests: ReadonlyMap<string, string>): boolean {
  return [...digests.keys()].filter((file) => !file.endsWith('.whl')).length >= MOST_FILES;
}

interface Reading extends Pick<RequirementsFile, 'kind'> {
  /** Folder that contains the requirements file. pip resolves the paths of wheels relative to its working directory, usually this folder. */
  readonly folder: string;
  readonly digests: Map<string, string>;
  readonly lines: { readonly [list in keyof PipLines]: string[] };
  /** Files that have been added to a list. A file may contain both requirements and constraints. */
  readonly visited: Set<string>;
}

async function addFile(file: string, reading: Reading, list: keyof PipLines): Promise<void> {
  const { kind, digests, visited } = reading;
  if (visited.has(`${list} ${file}`)) {
    return;
  }
  visited.add(`${list} ${file}`);
  const found = await stat(file).catch((error: unknown) => {
    throw new TonyError('SOURCE_NOT_FOUND', `python.requirements: ${file}: ${fileErrorOf(error)}.`, {
      hint: 'Correct the path in job.yaml. It is relative to the folder that contains job.yaml.',
      cause: error,
    });
  });
  if (isMany(digests)) {
    throw new TonyError('PYTHON_PACKAGES_NOT_FOUND', `python.requirements: the requirements consist of more than ${MOST_FILES} files.`, {
      hint: 'Combine the files that the requirements file includes.',
    });
  }
  if (!found.isFile() || (found.size > MOST_BYTES && !file.endsWith('.whl'))) {
    throw new TonyError('PYTHON_PACKAGES_NOT_FOUND', `python.requirements: ${file} is not a requirements file.`, {
      hint: 'Name a pip requirements file, a pyproject.toml or a uv.lock.',
    });
  }
  if (CONDA.test(file)) {
    throw new TonyError('PYTHON_PACKAGES_NOT_FOUND', `python.requirements: ${file} is not a pip requirements file.`, {
      hint: 'To ship a conda environment, pack it with conda-pack, and set python.archive to the archive. Otherwise, name a pip requirements file, a pyproject.toml or a uv.lock.',
    });
  }
  digests.set(file, await hashFile(file));
  if (file.endsWith('.whl')) {
    return;
  }
  const text = await readFile(file, 'utf8');
  refuseLogin(file, text);
  for (const { line, number } of kind === 'requirements' ? requirementLines(text) : []) {
    await addLine(line, { file, number, list }, reading);
  }
}

async function addLine(
  line: string,
  { file, number, list }: { readonly file: string; readonly number: number; readonly list: keyof PipLines },
  reading: Reading,
): Promise<void> {
  const { folder, digests, lines } = reading;
  const parsed = parseRequirementLine(line, {
    fromFolder: (name) => path.resolve(folder, name),
    fromFile: (name) => path.resolve(path.dirname(file), name),
    links: (name) => localFolder(name, file, folder),
  });
  if (parsed === null) {
    throw new TonyError(
      'PYTHON_PACKAGES_NOT_FOUND',
      `Line ${number} of ${file} is not accepted, because the nodes can use only wheels: ${withoutLogins(shortened(line))}`,
      {
        hint: 'Name a pip requirements file, a pyproject.toml or a uv.lock in python.requirements. A line may name a package, a wheel, another local file (-r, -c), or an index. Build a wheel of any other package with `python3 -m pip wheel`, and list its path.',
      },
    );
  }
  switch (parsed.type) {
    case 'include':
      await addFile(parsed.file, reading, parsed.isConstraint ? 'constraints' : 'requirements');
      return;
    case 'requirement':
      if (parsed.wheel !== null) {
        await addFile(parsed.wheel, reading, list);
      }
      lines[list].push(parsed.text);
      return;
    case 'options':
      for (const { links } of parsed.options) {
        await addWheelsIn(links, digests);
      }
      lines[list].push(...parsed.options.map(({ text }) => text));
  }
}

function shortened(line: string): string {
  return line.length <= 200 ? line : `${line.slice(0, 200)}…`;
}

/** Rejects a file that contains a password or an access token, because the file is usually part of the job's source. */
function refuseLogin(file: string, text: string): void {
  const line = text.split('\n').findIndex((each) => LOGIN.test(each)) + 1;
  if (line > 0) {
    throw new TonyError('PYTHON_PACKAGES_NOT_FOUND', `Line ${line} of ${file} contains a user name or password in a URL.`, {
      hint: `The file is usually shipped with the job. Write a variable, as in https://me:\${PASSWORD}@HOST/simple, or use ~/.netrc or pip.conf.`,
    });
  }
}

/**
 * Resolves a path as pip does: relative to the folder of the file that contains the path or, if that folder does not exist, relative to
 * pip's working directory.
 */
function localFolder(named: string, file: string, folder: string): string {
  const beside = path.resolve(path.dirname(file), named);
  return existsSync(beside) ? beside : path.resolve(folder, named);
}

/** Adds the digests of all wheels in a folder, because a rebuilt wheel may have the same version but different content. */
async function addWheelsIn(folder: string | null, digests: Map<string, string>): Promise<void> {
  if (folder === null) {
    return;
  }
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((each) => each.endsWith('.whl')).sort()) {
    digests.set(path.join(folder, name), await hashFile(path.join(folder, name)));
  }
}

/**
 * Returns the lines of a requirements file as pip reads them: with continuation lines joined, and without comments. A comment ends a
 * continued line.
 */
export function requirementLines(text: string): { readonly line: string; readonly number: number }[] {
  const lines: { line: string; number: number }[] = [];
  let begun = '';
  let first = 0;
  const end = (): void => {
    const line = begun.replace(/(?:^|\s)#.*$/u, '').trim();
    if (line !== '') {
      lines.push({ line, number: first });
    }
    begun = '';
  };
  for (const [at, line] of text
    .replace(/^\uFEFF/, '')
    .split(LINE_END)
    .entries()) {
    first = begun === '' ? at + 1 : first;
    const isComment = /^\s*#/.test(line);
    const isContinued = line.endsWith('\\') && !isComment;
    begun += isComment ? ' #' : isContinued ? `${line.slice(0, -1)} ` : line;
    if (!isContinued) {
      end();
    }
  }
  end();
  return lines;
}
