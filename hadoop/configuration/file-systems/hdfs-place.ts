import { TonyError } from '../../../platform/errors.ts';
import { withoutEnd } from '../../../platform/text/without-end.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { type Mounted, type MountTable, mountTable, resolveMount, targetsOf } from './mount-table.ts';
import { type FileSystemName, type HdfsScheme, parseFileSystem, rpcNameOf } from './name-nodes.ts';

/*
 * Finds the file system of a URI. A URI without an authority refers to the default file system. The mount tables in the configuration
 * resolve viewfs:// URIs.
 */

/** A parsed URI. */
export interface HdfsLocation {
  readonly scheme: HdfsScheme | 'viewfs';
  /** A nameservice, a `host:port` address or the name of a mount table. Empty for the default file system. */
  readonly authority: string;
  /** An absolute path without a trailing slash. */
  readonly path: string;
}

export interface HdfsPath {
  readonly fileSystem: FileSystemName;
  readonly path: string;
}

export interface HdfsPlace {
  /** The path on a real file system. Null for a folder that exists only in a mount table, and for a path outside all mount points. */
  readonly target: HdfsPath | null;
  /** Identifies the mount point. Files can be renamed only within one mount point. */
  readonly mount: string;
  /** True for a mount point and for the folders above it. */
  readonly isFixed: boolean;
  /** The names of this folder's direct children that are mount points or contain one. */
  readonly names: readonly string[];
}

/** Matches URIs with the schemes that `placeOf` resolves. */
export const HDFS_URI = /^(hdfs|webhdfs|swebhdfs|viewfs):/i;

/** Maximum number of nested mount tables. */
const MAXIMUM_DEPTH = 8;
const PREFIX = 'fs.viewfs.mounttable.';
const DEFAULT_TABLE = 'fs.viewfs.mounttable.default.name.key';

const tables = new WeakMap<HadoopConfiguration, Map<string, MountTable>>();

/**
 * Resolves a location.
 *
 * @throws TonyError HADOOP_CONF_INVALID if there is no default file system or mount table, STORAGE_DENIED for links that are not supported
 */
export function placeOf(configuration: HadoopConfiguration, location: HdfsLocation, depth = 0): HdfsPlace {
  const { scheme, authority, path } = withAuthority(configuration, location);
  if (scheme !== 'viewfs') {
    const fileSystem = { scheme, authority };
    return { target: { fileSystem, path }, mount: `${scheme}://${authority}`, isFixed: false, names: [] };
  }
  const found = resolveMount(tableOf(configuration, authority), path);
  if (found === null || found.target === null) {
    return { target: null, mount: `viewfs://${authority}`, isFixed: found !== null, names: found?.names ?? [] };
  }
  if (depth === MAXIMUM_DEPTH) {
    throw new TonyError('HADOOP_CONF_INVALID', `The mount tables of viewfs://${authority}${path} refer to one another.`);
  }
  const link = linkOf(found, `viewfs://${authority}${path}`);
  const { target } = placeOf(configuration, link, depth + 1);
  return { target, mount: `viewfs://${authority}${found.mount ?? ' fallback'}`, isFixed: found.isFixed, names: found.names };
}

/** Returns the URI of the folder that contains the users' home folders on the default file system, such as `/user`. */
export function homesOf(configuration: HadoopConfiguration): string {
  const { defaultFs } = configuration;
  const [, table] = /^viewfs:\/\/([^/]+)/i.exec(defaultFs) ?? [];
  return `${defaultFs}${table === undefined ? '/user' : tableOf(configuration, table).homes}`;
}

/** Returns the file system that contains the users' home folders. Returns null if the default file system is not HDFS. */
export function homeFileSystem(configuration: HadoopConfiguration): FileSystemName | null {
  const location = locationOf(homesOf(configuration));
  return location === null
    ? null
    : (placeOf(configuration, location).target?.fileSystem ?? fileSystemsOf(configuration, location)[0] ?? null);
}

/**
 * Resolves mount tables in a URI, because Hadoop's daemons may be configured without them. The result contains the RPC address of a
 * NameNode if the configuration names one. URIs with other schemes are returned unchanged.
 */
export function daemonUri(configuration: HadoopConfiguration, uri: string): string {
  const location = locationOf(uri);
  const target = location === null ? null : placeOf(configuration, location).target;
  if (target === null) {
    return uri;
  }
  const isWritten = location?.scheme === 'hdfs' && target.fileSystem.scheme === 'hdfs';
  const { scheme, authority } = isWritten ? target.fileSystem : rpcNameOf(configuration, target.fileSystem);
  return `${scheme}://${authority}${target.path}`;
}

/** Returns the file systems that a program may access through a location. For a mount table, these are the targets of all its links. */
export function fileSystemsOf(configuration: HadoopConfiguration, location: HdfsLocation, depth = 0): readonly FileSystemName[] {
  const { scheme, authority } = withAuthority(configuration, location);
  if (scheme !== 'viewfs') {
    return [{ scheme, authority }];
  }
  if (depth === MAXIMUM_DEPTH) {
    return [];
  }
  return targetsOf(tableOf(configuration, authority)).flatMap((target) => {
    const next = locationOf(target);
    return next === null ? [] : fileSystemsOf(configuration, next, depth + 1);
  });
}

/** Parses a URI without checking its path. Returns null if the scheme is not one of those in `HDFS_URI`. */
export function locationOf(uri: string): HdfsLocation | null {
  const [, scheme, authority = '', path = ''] = /^(hdfs|webhdfs|swebhdfs|viewfs):(?:\/\/([^/]*))?(\/.*)?$/is.exec(uri) ?? [];
  return scheme === undefined
    ? null
    : { scheme: scheme.toLowerCase() as HdfsLocation['scheme'], authority, path: withoutEnd(path, '/') || '/' };
}

/**
 * Adds the default file system's authority and scheme to a location without an authority. `hdfs:///path` is therefore a path on the default
 * file system, even if that file system uses another scheme.
 */
function withAuthority(configuration: HadoopConfiguration, location: HdfsLocation): HdfsLocation {
  if (location.authority !== '') {
    return location;
  }
  const { defaultFs } = configuration;
  const standard = locationOf(defaultFs);
  if (location.scheme === 'viewfs' && standard?.scheme !== 'viewfs') {
    return { ...location, authority: configuration.get(DEFAULT_TABLE) ?? 'default' };
  }
  if (standard === null || standard.authority === '') {
    const uri = `${location.scheme}://${location.path}`;
    throw new TonyError('HADOOP_CONF_INVALID', `${uri} names no NameNode, and fs.defaultFS is ${defaultFs || 'not set'}.`);
  }
  return { ...location, scheme: standard.scheme, authority: standard.authority };
}

function tableOf(configuration: HadoopConfiguration, name: string): MountTable {
  const known = tables.get(configuration) ?? new Map<string, MountTable>();
  tables.set(configuration, known);
  const table = known.get(name) ?? mountTable(name, configuration.withPrefix(`${PREFIX}${name}.`));
  known.set(name, table);
  return table;
}

function linkOf({ target }: Mounted, uri: string): HdfsLocation {
  const link = locationOf(target ?? '');
  if (link === null || (link.scheme !== 'viewfs' && parseFileSystem(`${link.scheme}://${link.authority}`) === null)) {
    throw new TonyError('STORAGE_DENIED', `${uri} leads to ${target}, which is not on a file system that tony-ts supports.`, {
      hint: 'The links in a mount table can lead to hdfs://, webhdfs://, swebhdfs:// and viewfs:// URIs with an authority.',
    });
  }
  return link;
}
