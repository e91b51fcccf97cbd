import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { hashFile } from '../job/source-archive.ts';
import type { Requirements } from '../runtime/download-packages.ts';
import { withoutLogins } from '../runtime/tool.ts';

/** Requirements file that job.yaml specifies as `python.requirements`. */
export interface RequirementsFile extends Requirements {
  /** SHA-256 digests of the requirements file, the files that it includes, and the local wheels that it references. */
  readonly digests: readonly string[];
}

const MOST_FILES = 100;
const MOST_BYTES = 16 * 1024 * 1024;
/** Matches a conda environment file. */
const CONDA = /\.ya?ml$/;
const INCLUDES = /^(?:-r|-c|--requirement|--constraint)(?:\s+|=)?(\S+)/;
/** Matches an editable project or a repository. */
const SOURCES = /^(?:-e\b|--editable\b)|(?:^|@\s*)(?:git|hg|svn|bzr)\+/;
const LOCAL_WHEEL = /^(?:file:\/\/)?([^\s:;@=<>]+\.whl)(?=$|[\s;])/;
/** Matches the option that specifies a wheel folder. */
const LINKS = /^(?:-f|--find-links)(?:\s+|=)?(\S+)/;
/**
 * Matches a user name or password in a URL. Does not match variables, as in `https://me:${PASSWORD}@` and `https://${TOKEN}@`, because pip
 * replaces them.
 */
const LOGIN = /https?:\/\/(?!(?:[^\s/@:]*:)?\$\{[A-Z0-9_]+\}@)[^\s/@"']+@/;

/**
 * Reads a requirements file, pyproject.toml or uv.lock, and every file that a requirements file includes.
 * @throws TonyError SOURCE_MISSING, PYTHON_UNRESOLVED
 */
export async function readRequirements(file: string): Promise<RequirementsFile> {
  const name = path.basename(file);
  const kind = name === 'pyproject.toml' ? 'pyproject' : name === 'uv.lock' ? 'lock' : 'requirements';
  const digests = new Map<string, string>();
  await addFile(file, { kind, folder: path.dirname(file), digests });
  return { file, kind, digests: [...digests.values()] };
}

function isMany(digests: ReadonlyMap<string, string>): boolean {
  return [...digests.keys()].filter((file) => !file.endsWith('.whl')).length >= MOST_FILES;
}

interface Reading extends Pick<Requirements, 'kind'> {
  /** Working directory for pip: the folder that contains the requirements file. */
  readonly folder: string;
  readonly digests: Map<string, string>;
}

async function addFile(file: string, reading: Reading): Promise<void> {
  const { kind, folder, digests } = reading;
  if (digests.has(file)) {
    return;
  }
  const found = await stat(file).catch((error: unknown) => {
    throw new TonyError('SOURCE_MISSING', `python.requirements: ${file}: ${fileErrorOf(error)}.`, {
      hint: 'Correct the path in job.yaml. It is relative to the folder that contains job.yaml.',
      cause: error,
    });
  });
  if (isMany(digests)) {
    throw new TonyError('PYTHON_UNRESOLVED', `python.requirements: the requirements consist of more than ${MOST_FILES} files.`, {
      hint: 'Combine the files that the requirements file includes.',
    });
  }
  if (!found.isFile() || (found.size > MOST_BYTES && !file.endsWith('.whl'))) {
    throw new TonyError('PYTHON_UNRESOLVED', `python.requirements: ${file} is not a requirements file.`, {
      hint: 'Name a pip requirements file, a pyproject.toml or a uv.lock.',
    });
  }
  if (CONDA.test(file)) {
    throw new TonyError('PYTHON_UNRESOLVED', `python.requirements: ${file} is not a pip requirements file.`, {
      hint: 'To ship a conda environment, pack it with conda-pack, and set python.archive to the archive. Otherwise, name a pip requirements file, a pyproject.toml or a uv.lock.',
    });
  }
  digests.set(file, await hashFile(file));
  if (file.endsWith('.whl')) {
    return;
  }
  const text = await readFile(file, 'utf8');
  refuseLogin(file, text);
  for (const line of kind === 'requirements' ? requirementLines(text) : []) {
    if (SOURCES.test(line)) {
      throw new TonyError('PYTHON_UNRESOLVED', `${file} lists ${withoutLogins(line)}, but the nodes can use only wheels.`, {
        hint: 'Build a wheel with `python3 -m pip wheel`, and list its path instead.',
      });
    }
    const [, included] = INCLUDES.exec(line) ?? [];
    const [, wheel] = LOCAL_WHEEL.exec(line) ?? [];
    const [, links] = LINKS.exec(line) ?? [];
    if (included !== undefined && !/^https?:/.test(included)) {
      await addFile(path.resolve(path.dirname(file), included), reading);
    } else if (wheel !== undefined) {
      await addFile(path.resolve(folder, wheel), reading);
    } else if (links !== undefined && !/^https?:/.test(links)) {
      await addWheelsIn(localFolder(links, file, folder), digests);
    }
  }
}

/** Rejects a file that contains a password or an access token, because the file is usually part of the job's source. */
function refuseLogin(file: string, text: string): void {
  const line = text.split('\n').findIndex((each) => LOGIN.test(each)) + 1;
  if (line > 0) {
    throw new TonyError('PYTHON_UNRESOLVED', `Line ${line} of ${file} contains a user name or password in a URL.`, {
      hint: `The file is usually shipped with the job. Write a variable, as in https://me:\${PASSWORD}@HOST/simple, or use ~/.netrc or pip.conf.`,
    });
  }
}

/**
 * Resolves a path as pip does: relative to the folder of the file that contains the path or, if that folder does not exist, relative to
 * pip's working directory.
 */
function localFolder(links: string, file: string, folder: string): string {
  const named = links.startsWith('file:') ? fileURLToPath(links) : links;
  const beside = path.resolve(path.dirname(file), named);
  return existsSync(beside) ? beside : path.resolve(folder, named);
}

/** Adds the digests of all wheels in a folder, because a rebuilt wheel may have the same version but different content. */
async function addWheelsIn(folder: string, digests: Map<string, string>): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((each) => each.endsWith('.whl')).sort()) {
    digests.set(path.join(folder, name), await hashFile(path.join(folder, name)));
  }
}

/**
 * Returns the lines of a requirements file as pip reads them: without comments, with continuation lines joined, and with variables such as
 * `${WHEELS}` replaced by their values.
 */
function requirementLines(text: string): string[] {
  return text
    .replace(/\\\r?\n/g, ' ')
    .split(/\r?\n/)
    .map((line) => line.replace(/(^|\s)#.*$/, '').trim())
    .map((line) => line.replace(/\$\{([A-Z0-9_]+)\}/g, (variable, name: string) => process.env[name] ?? variable))
    .filter((line) => line !== '');
}
