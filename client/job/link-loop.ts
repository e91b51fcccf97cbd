import path from 'node:path';

/**
 * Number of folder levels, including the source folder, that a NodeManager's launch script lists before it starts a container. The script
 * follows links, and the container fails if there is a loop.
 */
const LISTED_LEVELS = 5;

/** A link through which a folder contains itself, or a link that leads only to itself. */
export interface LinkLoop {
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
