import { existsSync } from 'node:fs';
import { lstat, readdir, readFile, readlink, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Ignore } from 'ignore';
import { messageOf, TonyError } from '../../platform/errors.ts';

/**
 * Number of folder levels, including the source folder, that a NodeManager's launch script lists before it starts a container. The script
 * follows links, and the container fails if there is a loop.
 */
const LISTED_LEVELS = 5;

/** A link through which a folder contains itself, or a link that leads only to itself. */
interface LinkLoop {
  readonly link: string;
  /** A path through the link that leads back to `folder`, or null if the link leads only to itself. */
  readonly again: { readonly path: string; readonly folder: string } | null;
}

/**
 * Returns a loop that YARN would find, or null if there is none. All paths are relative to the uploaded folder, whose own path is empty.
 * @param links the final target of each link, which is a path without links, or null if the link leads only to itself
 */
export function findLinkLoop(folders: Iterable<string>, links: ReadonlyMap<string, string | null>): LinkLoop | null {
  const known = new Set(['', ...folders]);
  const relevant = [...links].filter(([, target]) => target === null || known.has(target));
  // Every loop contains a link, so only links and the folders that contain links are relevant.
  const contents = new Map<string, Map<string, string | null>>();
  for (const [link, target] of relevant) {
    contentsOf(contents, link).set(path.basename(link), target);
    for (let folder = parentOf(link); folder !== ''; folder = parentOf(folder)) {
      contentsOf(contents, folder).set(path.basename(folder), folder);
    }
  }
  const visit = (folder: string, shown: string, passed: readonly string[], newest: string): LinkLoop | null => {
    if (passed.length >= LISTED_LEVELS) {
      return null;
    }
    for (const [name, target] of contents.get(folder) ?? []) {
      const own = path.join(folder, name);
      const link = links.has(own) ? own : newest;
      const entry = path.join(shown, name);
      if (target === null || passed.includes(target)) {
        return { link, again: target === null ? null : { path: entry, folder: target } };
      }
      const found = visit(target, entry, [...passed, target], link);
      if (found !== null) {
        return found;
      }
    }
    return null;
  };
  return visit('', '', [''], '');
}

function contentsOf(contents: Map<string, Map<string, string | null>>, entry: string): Map<string, string | null> {
  const folder = parentOf(entry);
  const found = contents.get(folder) ?? new Map<string, string | null>();
  contents.set(folder, found);
  return found;
}

function parentOf(entry: string): string {
  const parent = path.dirname(entry);
  return parent === '.' ? '' : parent;
}

/** Entry in a folder to upload. Paths are relative and use `/`. */
export type FolderEntry =
  | { readonly type: 'folder'; readonly path: string }
  | { readonly type: 'file'; readonly path: string; readonly size: number; readonly executable: boolean }
  /** The target is relative to the folder that contains the link, and is inside the uploaded folder. */
  | { readonly type: 'link'; readonly path: string; readonly target: string };

export interface FolderListing {
  /** Absolute path without links. */
  readonly root: string;
  /** Entries, sorted by path. Each folder precedes its contents. */
  readonly entries: readonly FolderEntry[];
  readonly bytes: number;
  /** Paths that are not uploaded because their names suggest that they contain secrets. Folder paths end with `/`. */
  readonly withheld: readonly string[];
}

/**
 * Files that usually contain passwords, tokens or private keys. To upload such a file, users add a line such as `!.env` to .tonyignore.
 * Installed packages are exempt, because they contain public certificates.
 */
const SECRETS = [
  ...['.env', '.env.*', '!.env.example', '!.env.sample', '!.env.template', '.envrc', '.npmrc', '.netrc', '_netrc', '.pypirc', '.pgpass'],
  ...['.git-credentials', '.dockercfg', '.docker/config.json', '.aws/', '.azure/', '.kube/', '.ssh/', '.gnupg/', '.config/gcloud/'],
  ...['id_rsa', 'id_dsa', 'id_ecdsa', 'id_ed25519', 'id_*_sk', '*.pem', '*.key', '*.p12', '*.pfx', '*.ppk'],
  ...['*.jks', '*.keystore', '*.kdbx', '*.keytab'],
  ...['credentials.json', 'service-account*.json', '.yarnrc.yml', '.vault-token', '.htpasswd'],
  ...['!**/node_modules/**', '!**/site-packages/**'],
];

/** Paths that jobs do not need. To upload such a path, users add a line such as `!.git/` to .tonyignore. */
const NEVER_WANTED = ['.git/', '.hg/', '.svn/', '.DS_Store', '__pycache__/', '.ipynb_checkpoints/'];
/** Marks a Python virtual environment, which works only at its own path on the machine where it was created. */
const VENV_MARK = 'pyvenv.cfg';
const IGNORE_FILE = '.tonyignore';

/**
 * Lists the files to upload from a source folder. Excludes version control folders, Python's caches and virtual environments, files whose
 * names suggest that they contain secrets, and everything that `exclude` or .tonyignore matches. `exclude` and .tonyignore use gitignore
 * syntax. Rejects a link to a target outside the folder, because the target would be missing in containers.
 */
export async function listSource(folder: string, exclude: readonly string[]): Promise<FolderListing> {
  const root = await resolveFolder(folder, 'source folder');
  const { default: ignore } = await import('ignore');
  const named = await ignoreFile(root);
  return walk(root, {
    rules: ignore()
      .add(SECRETS)
      .add(NEVER_WANTED)
      .add(named)
      .add([...exclude]),
    withoutSecrets: ignore()
      .add(NEVER_WANTED)
      .add(named)
      .add([...exclude]),
  });
}

export async function listFolder(folder: string, what: string): Promise<FolderListing> {
  return walk(await resolveFolder(folder, what), null);
}

/**
 * Lists input data, which is a single file or a folder with all of its contents. Follows links to files, because only contents are
 * uploaded.
 */
export async function listData(place: string, name: string): Promise<FolderListing> {
  const found = await stat(place).catch(() => null);
  if (found?.isFile()) {
    const entry = { type: 'file', path: path.basename(place), size: found.size, executable: false } as const;
    return { root: await realpath(path.dirname(place)), entries: [entry], bytes: found.size, withheld: [] };
  }
  return walk(await resolveFolder(place, `data.${name} folder`), null, 'follow');
}

async function resolveFolder(folder: string, what: string): Promise<string> {
  let resolved: string;
  try {
    resolved = await realpath(folder);
  } catch (error) {
    throw new TonyError('SOURCE_NOT_FOUND', `The ${what} ${folder} does not exist.`, { cause: error });
  }
  if (!(await stat(resolved)).isDirectory()) {
    throw new TonyError('SOURCE_NOT_FOUND', `The ${what} ${folder} is not a folder.`);
  }
  return resolved;
}

async function ignoreFile(root: string): Promise<string> {
  try {
    return await readFile(path.join(root, IGNORE_FILE), 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) {
      return '';
    }
    throw unreadable(path.join(root, IGNORE_FILE), error);
  }
}

interface Rules {
  readonly rules: Ignore;
  /** All rules except SECRETS. Paths that only SECRETS excludes are listed in a note to the user. */
  readonly withoutSecrets: Ignore;
}

async function walk(root: string, ignored: Rules | null, links: 'keep' | 'follow' = 'keep'): Promise<FolderListing> {
  const entries: FolderEntry[] = [];
  const withheld: string[] = [];
  const finalTargets = new Map<string, string | null>();
  const pending = [''];
  let bytes = 0;
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    for (const child of await children(path.join(root, folder))) {
      const relative = folder === '' ? child.name : `${folder}/${child.name}`;
      const absolute = path.join(root, relative);
      const isReadable = !child.name.includes('\ufffd') || existsSync(absolute);
      const named = child.isDirectory() ? `${relative}/` : relative;
      if (ignored?.rules.ignores(named)) {
        if (!ignored.withoutSecrets.ignores(named)) {
          withheld.push(named);
        }
        continue;
      }
      // Node.js replaces bytes that are not UTF-8, so it cannot open such a file.
      if (!isReadable) {
        throw new TonyError('SOURCE_UNREADABLE', `The name of ${absolute} is not valid UTF-8 (\ufffd replaces the other bytes).`, {
          hint: `Rename the file, for example with \`convmv\`, or list it in ${IGNORE_FILE}.`,
        });
      }
      if (child.isDirectory() && ignored !== null && existsSync(path.join(absolute, VENV_MARK)) && !ignored.rules.test(named).unignored) {
        continue;
      }
      if (child.isDirectory()) {
        entries.push({ type: 'folder', path: relative });
        pending.push(relative);
      } else if (child.isSymbolicLink() && links === 'follow') {
        const { size } = await linkedFile(absolute);
        entries.push({ type: 'file', path: relative, size, executable: false });
        bytes += size;
      } else if (child.isSymbolicLink()) {
        const { target, final } = await insideTarget(root, absolute);
        entries.push({ type: 'link', path: relative, target });
        finalTargets.set(relative, final);
      } else if (child.isFile()) {
        const { size, mode } = await lstat(absolute).catch((error: unknown) => {
          throw unreadable(absolute, error);
        });
        entries.push({ type: 'file', path: relative, size, executable: (mode & 0o111) !== 0 });
        bytes += size;
      } else {
        throw new TonyError('SOURCE_INVALID', `${absolute} is not a file, a folder or a link.`, {
          hint: `Remove it, or list it in ${IGNORE_FILE}.`,
        });
      }
    }
  }
  rejectLoop(root, entries, finalTargets);
  entries.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { root, entries, bytes, withheld: withheld.sort() };
}

async function children(folder: string) {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    throw unreadable(folder, error);
  }
}

async function linkedFile(link: string): Promise<{ size: number }> {
  const target = await stat(link).catch((error: unknown) => {
    throw unreadable(link, error);
  });
  if (target.isFile()) {
    return target;
  }
  throw new TonyError('SOURCE_INVALID', `${link} is a link to a folder; in data folders, tony-ts follows only links to files.`, {
    hint: 'Add the target folder to `data` in job.yaml as a separate entry.',
  });
}

/** Returns the target of a link, and the final target if the link leads to another link. */
async function insideTarget(root: string, link: string): Promise<{ target: string; final: string | null }> {
  const target = await readlink(link);
  const aim = path.resolve(path.dirname(link), target);
  const { real, isEndless } = await realpath(link).then(
    (found) => ({ real: found, isEndless: false }),
    (error: unknown) => ({ real: aim, isEndless: hasCode(error, 'ELOOP') }),
  );
  if (!isInside(root, aim) || !isInside(root, real)) {
    throw new TonyError('SOURCE_INVALID', `${link} is a link to ${target}, which is outside the uploaded folder ${root}.`, {
      hint: `Replace it with a copy, or list it in ${IGNORE_FILE}.`,
    });
  }
  return {
    target: path.isAbsolute(target) ? path.relative(path.dirname(link), aim) || '.' : target,
    final: isEndless ? null : path.relative(root, real),
  };
}

function rejectLoop(root: string, entries: readonly FolderEntry[], finalTargets: ReadonlyMap<string, string | null>): void {
  const folders = entries.flatMap((entry) => (entry.type === 'folder' ? [entry.path] : []));
  const loop = findLinkLoop(folders, finalTargets);
  if (loop === null) {
    return;
  }
  const { link, again } = loop;
  const target = entries.find((entry) => entry.type === 'link' && entry.path === link) as Extract<FolderEntry, { type: 'link' }>;
  const effect =
    again === null ? 'which leads only to itself' : `which makes a loop: ${again.path} leads back to ${path.join(root, again.folder)}`;
  throw new TonyError(
    'SOURCE_INVALID',
    `${path.join(root, link)} is a link to ${target.target}, ${effect}. YARN cannot start containers with it.`,
    { hint: `Remove the link, or list it in ${IGNORE_FILE}.` },
  );
}

function isInside(root: string, candidate: string): boolean {
  const relative = path.relative(root, candidate);
  return relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative);
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

function unreadable(place: string, cause: unknown): TonyError {
  return new TonyError('SOURCE_UNREADABLE', `Cannot read ${place}: ${messageOf(cause)}.`, { cause });
}
