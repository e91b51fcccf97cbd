import { TonyError } from '../../platform/errors.ts';
import { isMissingBelowFile, type RemoteException } from '../http/remote-exception.ts';
import type { RoundFailure } from '../rpc/address-round.ts';

export interface FileStatus {
  /** Path relative to the listed folder. Empty if the request was for a single file or folder. */
  readonly name: string;
  readonly type: 'file' | 'folder';
  readonly length: number;
  /** Time of the last modification, in ms since the epoch. */
  readonly modificationTime: number;
  readonly permission: number;
  readonly owner: string;
  /** File ID, which stays the same when the file is renamed. The value is 0 if the server does not report an ID. */
  readonly fileId: number;
  /** True for a file or folder in an encryption zone. */
  readonly encrypted?: boolean;
}

/**
 * Handles an error response that contains no RemoteException, or that demands authentication (see `demandsLogin`). Returns the reason if a
 * retry may help, and throws otherwise.
 */
export function refusal(status: number, path: string, { origin }: URL, remote: RemoteException | null = null): { again: string } {
  if (status === 401 || status === 403 || remote !== null) {
    const reason = remote === null || remote.message === '' ? '' : `: ${remote.message}`;
    throw new TonyError('HDFS_DENIED', `${path}: the NameNode ${origin} requires authentication (HTTP ${status}${reason}).`);
  }
  if (status === 502 || status === 503 || status === 504) {
    return { again: `HTTP ${status}` };
  }
  if (status >= 500) {
    throw new TonyError('HDFS_UNREACHABLE', `${path}: the NameNode ${origin} failed to serve the request (HTTP ${status}).`, {
      hint: 'The log of the NameNode shows the cause. Check also that dfs.namenode.http-address names its web address.',
    });
  }
  throw notWebHdfs(`HTTP ${status}`, origin);
}

/** @param server origin of the server that has answered */
export function notWebHdfs(what: string, server: string): TonyError {
  return new TonyError('HDFS_UNREACHABLE', `The server at ${server} does not speak WebHDFS: ${what}.`, {
    hint: 'Check that dfs.namenode.http-address names the web address of the NameNode, and that dfs.webhdfs.enabled is not false.',
  });
}

/** @param doubt the reason why the server addresses may be wrong, or null if they are certainly correct */
export function unreachable(what: string, { reason, code }: RoundFailure, doubt: string | null = null): TonyError {
  if (code !== undefined) {
    return new TonyError(code, `${what}: the NameNode did not serve the request. Its response: ${reason}`);
  }
  const message = `${what}: no NameNode or DataNode served the request. The last attempt failed at ${reason}`;
  return doubt === null
    ? new TonyError('HDFS_UNREACHABLE', message)
    : new TonyError('HDFS_UNREACHABLE', `${message}. ${doubt}.`, { hint: 'Correct the URI, or add the nameservice to hdfs-site.xml.' });
}

/**
 * Returns the error for a gateway that redirects clients to another server. The message omits the location's query string, because it may
 * contain a token.
 */
export function leavesGateway({ origin }: URL, location: string): TonyError {
  const target = URL.canParse(location) ? new URL(location).origin : 'another server';
  return new TonyError('HDFS_UNREACHABLE', `The gateway ${origin} redirects file transfers to ${target}.`, {
    hint: 'Set storage.gateway in tony-site.yaml to the address of HttpFS or Knox. A NameNode is not a gateway: remove storage.gateway to use it directly.',
  });
}

export function jsonOf(text: string, operation: string, { origin }: URL): Record<string, unknown> {
  // SETPERMISSION, and RENAME with `renameoptions`, return an empty body on success.
  if (text === '') {
    return {};
  }
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) {
      return value as Record<string, unknown>;
    }
  } catch {}
  throw notWebHdfs(`the response to ${operation} is not JSON`, origin);
}

export function statusesOf({ FileStatuses }: Record<string, unknown>, operation: string, server: string): FileStatus[] {
  const statuses = recordOf(FileStatuses).FileStatus;
  if (!Array.isArray(statuses)) {
    throw notWebHdfs(`the response to ${operation} has no FileStatuses`, server);
  }
  // If the path is a file, LISTSTATUS returns the file itself with an empty name.
  return statuses.map((status) => fileStatusOf(status, server)).filter((entry) => entry.name !== '');
}

export function recordOf(value: unknown): Record<string, unknown> {
  return (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
}

export function fileStatusOf(value: unknown, server: string): FileStatus {
  const status = recordOf(value);
  const { pathSuffix, type, length, modificationTime, permission, owner, fileId, encBit } = status;
  if (typeof pathSuffix !== 'string' || typeof type !== 'string' || typeof length !== 'number' || typeof modificationTime !== 'number') {
    throw notWebHdfs('a FileStatus lacks pathSuffix, type, length or modificationTime', server);
  }
  return {
    name: pathSuffix,
    type: type === 'DIRECTORY' ? 'folder' : 'file',
    length,
    modificationTime,
    permission: Number.parseInt(typeof permission === 'string' ? permission : '0', 8),
    owner: typeof owner === 'string' ? owner : '',
    fileId: typeof fileId === 'number' ? fileId : 0,
    ...(encBit === true && { encrypted: true }),
  };
}

/** Returns true if two statuses, from before and after a rename, describe the same file. */
export function isSameFile(a: FileStatus, b: FileStatus): boolean {
  if (a.fileId > 0) {
    return a.fileId === b.fileId;
  }
  return a.length === b.length && a.modificationTime === b.modificationTime;
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

/** Returns an error handler that calls `otherwise` for NOT_FOUND and rethrows all other errors. */
export function unlessMissing<T>(otherwise: () => Promise<T>): (error: unknown) => Promise<T> {
  return (error) => {
    if (error instanceof TonyError && error.code === 'NOT_FOUND') {
      return otherwise();
    }
    throw error;
  };
}

export function octal(permission: number): string {
  return permission.toString(8);
}

export function isMissing(remote: RemoteException): boolean {
  return remote.exception === 'FileNotFoundException' || isMissingBelowFile(remote);
}

/** Result for an operation that the server does not support. */
export const UNSUPPORTED = Symbol('unsupported');

/** Returns UNSUPPORTED if the server does not support LISTSTATUS_BATCH, as is the case for routers. Rethrows all other errors. */
export function unlessUnsupported(error: unknown): typeof UNSUPPORTED {
  if (error instanceof TonyError && error.message.endsWith('(UnsupportedOperationException)')) {
    return UNSUPPORTED;
  }
  throw error;
}
