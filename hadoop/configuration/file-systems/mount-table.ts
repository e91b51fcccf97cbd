import { TonyError } from '../../../platform/errors.ts';
import { withoutEnd } from '../../../platform/text/without-end.ts';

/*
 * The mount tables of viewfs:// (https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/ViewFs.html). Properties of the
 * table NAME, each with the prefix `fs.viewfs.mounttable.NAME.`:
 *
 *   link./path = URI        a mount point. If mount points are nested, the deepest one applies, as in Hadoop 3.4
 *   linkFallback = URI      the folder for all paths outside the mount points
 *   linkMergeSlash = URI    one mount point at the root, which excludes all others
 *   homedir = /path         the folder of the users' home folders; default /user
 *   linkNfly.…, linkRegx.…, linkMerge.…    not supported
 */

export interface MountTable {
  readonly name: string;
  /** The folder that contains the users' home folders. */
  readonly homes: string;
  /** Target URIs without trailing slashes, keyed by path. The root's key is an empty string. */
  readonly links: ReadonlyMap<string, string>;
  readonly fallback: string | null;
  /** Paths of nfly links, which replicate files to several file systems. */
  readonly nfly: ReadonlySet<string>;
}

export interface Mounted {
  /** The URI to which the path resolves, or null for a folder that exists only in the mount table. */
  readonly target: string | null;
  /**
   * The path of the mount point that contains the path. Null for a path to which only the fallback applies, and for a folder that exists
   * only in the mount table.
   */
  readonly mount: string | null;
  /** True for a mount point and for the folders above it, which cannot be renamed or removed. */
  readonly isFixed: boolean;
  /** The names of this folder's direct children that are mount points or contain one. */
  readonly names: readonly string[];
}

/**
 * Reads a mount table.
 *
 * @param properties the table's properties. Their keys contain only the part after the table's name.
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function mountTable(name: string, properties: ReadonlyMap<string, string>): MountTable {
  const links = new Map<string, string>();
  const nfly = new Set<string>();
  let fallback: string | null = null;
  const invalid = (key: string, problem: string): never => {
    throw new TonyError('HADOOP_CONF_INVALID', `fs.viewfs.mounttable.${name}.${key} ${problem}.`);
  };
  for (const [key, value] of properties) {
    const [, kind, rest] = /^(link|linkNfly|linkMerge|linkRegx|linkRegex)\.(.*)$/s.exec(key) ?? [];
    if (kind === 'link') {
      links.set(
        mountPath(rest ?? '', (problem) => invalid(key, problem)),
        value,
      );
    } else if (kind === 'linkNfly') {
      nfly.add(withoutEnd((rest ?? '').replace(/^[^/]*/, ''), '/'));
    } else if (kind !== undefined) {
      invalid(key, `is a ${kind} link, which tony-ts does not support: use link, linkFallback or linkMergeSlash`);
    } else if (key === 'linkFallback') {
      fallback = value;
    }
  }
  const mergedSlash = properties.get('linkMergeSlash');
  if (mergedSlash !== undefined) {
    if (links.size > 0 || nfly.size > 0 || fallback !== null) {
      invalid('linkMergeSlash', 'excludes all other links in the mount table');
    }
    links.set('', mergedSlash);
  }
  if (links.size === 0 && nfly.size === 0 && fallback === null) {
    throw new TonyError('HADOOP_CONF_INVALID', `The configuration has no mount table for viewfs://${name}.`, {
      hint: `Set fs.viewfs.mounttable.${name}.link./PATH, linkFallback or linkMergeSlash in core-site.xml, or a file that it includes.`,
    });
  }
  return { name, homes: withoutEnd(properties.get('homedir') ?? '/user', '/'), links, fallback, nfly };
}

/**
 * Resolves an absolute path without a trailing slash, or `/` for the root.
 *
 * @returns null if the path is outside all mount points and the table has no fallback
 * @throws TonyError STORAGE_DENIED for a path below an nfly link
 */
export function resolveMount(table: MountTable, path: string): Mounted | null {
  const own = path === '/' ? '' : path;
  const points = [...table.links.keys(), ...table.nfly];
  const names = [...new Set(points.filter((point) => isBelow(point, own)).map((point) => point.slice(own.length + 1).split('/')[0] ?? ''))];
  const mount = points.filter((point) => point === own || isBelow(own, point)).sort((a, b) => b.length - a.length)[0];
  if (mount !== undefined && table.nfly.has(mount)) {
    throw new TonyError('STORAGE_DENIED', `viewfs://${table.name}${path} is below an nfly link, which tony-ts does not support.`, {
      hint: 'Use the URI of a file system to which the link replicates.',
    });
  }
  const isFixed = mount === own || names.length > 0;
  if (mount !== undefined) {
    return { target: below(table.links.get(mount) ?? '', own.slice(mount.length)), mount: mount || '/', isFixed, names };
  }
  if (table.fallback !== null) {
    return { target: below(table.fallback, own), mount: null, isFixed, names };
  }
  return isFixed || own === '' ? { target: null, mount: null, isFixed: true, names } : null;
}

export function targetsOf({ links, fallback }: MountTable): readonly string[] {
  return [...new Set([...links.values(), ...(fallback === null ? [] : [fallback])])];
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(`${folder}/`);
}

function below(target: string, rest: string): string {
  return rest === '' ? target : `${withoutEnd(target, '/')}${rest}`;
}

function mountPath(text: string, invalid: (problem: string) => never): string {
  const path = withoutEnd(text, '/');
  if (!text.startsWith('/') || path.split('/').some((part, index) => (part === '' && index > 0) || part === '.' || part === '..')) {
    return invalid('does not name an absolute path');
  }
  return path === '' ? invalid('names the root: use linkMergeSlash instead') : path;
}
