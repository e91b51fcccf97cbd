import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { hashFile } from '../job/source-archive.ts';
import type { Requirements } from '../runtime/download-packages.ts';

/** A file that job.yaml names under `python.requirements`. */
export interface RequirementsFile extends Requirements {
  /** SHA-256 of the file, of the files that it includes and of the local wheels that it lists. */
  readonly digests: readonly string[];
}

const MOST_FILES = 100;
const MOST_BYTES = 16 * 1024 * 1024;
const INCLUDES = /^(?:-r|-c|--requirement|--constraint)(?:\s+|=)?(\S+)/;
/** An editable project, or a repository. */
const SOURCES = /^(?:-e\b|--editable\b)|(?:^|@\s*)(?:git|hg|svn|bzr)\+/;
const LOCAL_WHEEL = /^(?:file:\/\/)?([^\s:;@=<>]+\.whl)(?=$|[\s;])/;

/**
 * Reads a requirements file, pyproject.toml or uv.lock, and every file that a requirements file includes.
 * @throws TonyError SOURCE_MISSING, PYTHON_UNRESOLVED
 */
export async function readRequirements(file: string): Promise<RequirementsFile> {
  const name = path.basename(file);
  const kind = name === 'pyproject.toml' ? 'pyproject' : name === 'uv.lock' ? 'lock' : 'requirements';
  const digests = new Map<string, string>();
  await addFile(file, kind, digests);
  return { file, kind, digests: [...digests.values()] };
}

async function addFile(file: string, kind: Requirements['kind'], digests: Map<string, string>): Promise<void> {
  if (digests.has(file)) {
    return;
  }
  const found = await stat(file).catch((error: unknown) => {
    throw new TonyError('SOURCE_MISSING', `python.requirements: ${file}: ${fileErrorOf(error)}.`, {
      hint: 'Correct the path in job.yaml. It is relative to the folder of job.yaml.',
      cause: error,
    });
  });
  if (!found.isFile() || (found.size > MOST_BYTES && !file.endsWith('.whl')) || digests.size >= MOST_FILES) {
    throw new TonyError('PYTHON_UNRESOLVED', `python.requirements: ${file} is not a requirements file, or there are too many of them.`, {
      hint: `Name a file in the format of pip, a pyproject.toml or a uv.lock, with at most ${MOST_FILES} included files.`,
    });
  }
  digests.set(file, await hashFile(file));
  if (kind !== 'requirements' || file.endsWith('.whl')) {
    return;
  }
  for (const line of requirementLines(await readFile(file, 'utf8'))) {
    if (SOURCES.test(line)) {
      throw new TonyError('PYTHON_UNRESOLVED', `${file} lists ${line}, but the nodes can use only wheels.`, {
        hint: 'Build a wheel with `python3 -m pip wheel`, and list its path instead.',
      });
    }
    const [, included] = INCLUDES.exec(line) ?? [];
    const [, wheel] = LOCAL_WHEEL.exec(line) ?? [];
    if (included !== undefined && !/^https?:/.test(included)) {
      await addFile(path.resolve(path.dirname(file), included), kind, digests);
    } else if (wheel !== undefined) {
      await addFile(path.resolve(path.dirname(file), wheel), kind, digests);
    }
  }
}

/** Returns the lines without comments and with continuation lines joined. */
export function requirementLines(text: string): string[] {
  return text
    .replace(/\\\r?\n/g, ' ')
    .split(/\r?\n/)
    .map((line) => line.replace(/(^|\s)#.*$/, '').trim())
    .filter((line) => line !== '');
}
