import { basename } from 'node:path';

/** Paths for `files` and `archives` in job.yaml, keyed by name. */
type DraftFiles = Readonly<Record<'files' | 'archives', Readonly<Record<string, string>>>>;

/**
 * Parses a list of resources in TonY's format: `PATH` or `PATH::NAME` for a file, and `PATH#archive` or `PATH::NAME#archive` for an
 * archive. Without NAME, the resource keeps its file name.
 * @param place converts a path of TonY to a path in job.yaml
 */
export function draftFiles(resources = '', place: (path: string) => string): DraftFiles {
  const files = new Map<string, string>();
  const archives = new Map<string, string>();
  for (const resource of splitList(resources)) {
    const isArchive = /#archive$/i.test(resource);
    const [path = '', ...rest] = (isArchive ? resource.slice(0, -'#archive'.length) : resource).split('::');
    (isArchive ? archives : files).set(rest.length > 0 ? rest.join('::') : basename(path), place(path));
  }
  return { files: Object.fromEntries(files), archives: Object.fromEntries(archives) };
}

/** Replaces empty mappings with undefined. */
export function unlessEmpty({ files, archives }: DraftFiles): { readonly [K in keyof DraftFiles]: DraftFiles[K] | undefined } {
  const kept = <T extends object>(value: T): T | undefined => (Object.keys(value).length === 0 ? undefined : value);
  return { files: kept(files), archives: kept(archives) };
}

export function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}
