import { type ErrorCode, TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';
import { parseJson } from '../../platform/json-value.ts';
import { withoutStackTrace } from './error-text.ts';

/** A Hadoop daemon's error response: `{"RemoteException":{"exception":..,"javaClassName":..,"message":..}}`. */
export interface RemoteException {
  /** Class name without the package, e.g. `FileNotFoundException`. */
  readonly exception: string;
  readonly message: string;
}

/** Parses an error response. Returns null if the text does not contain a RemoteException. */
export function parseRemoteException(text: string): RemoteException | null {
  const answer = parseJson(text);
  const remote = isRecord(answer) ? answer.RemoteException : undefined;
  if (!isRecord(remote) || typeof remote.exception !== 'string') {
    return null;
  }
  // Some messages contain a Java stack trace after the first line.
  const message = typeof remote.message === 'string' ? withoutStackTrace(remote.message) : '';
  return { exception: remote.exception, message };
}

/**
 * Temporary errors. A retry, or a request to another NameNode, may succeed. From `ConnectException` on, the errors come from a DataNode
 * that cannot connect to its NameNode.
 */
const TRANSIENT = new Set([
  'StandbyException',
  'ObserverRetryOnActiveException',
  'RetriableException',
  'RetryStartFileException',
  'SafeModeException',
  'ServerTooBusyException',
  'ConnectException',
  'ConnectTimeoutException',
  'EOFException',
  'NoRouteToHostException',
  'SocketException',
  'SocketTimeoutException',
]);

export function isTransient(remote: RemoteException): boolean {
  // No DataNode has registered yet. The NameNode reports this as an IOException.
  return TRANSIENT.has(remote.exception) || remote.message.startsWith('Failed to find datanode');
}

/** Returns true if the server demands that the user log in. Servers also respond so without a RemoteException, with status 401. */
export function demandsLogin(remote: RemoteException): boolean {
  return remote.exception === 'AuthenticationException';
}

/** Returns the outcome of a request that the server rejected with a temporary error. */
export function transientOutcome(remote: RemoteException): { readonly again: string; readonly code?: ErrorCode } {
  const again = `${remote.message} (${remote.exception})`;
  return remote.exception === 'SafeModeException' ? { again, code: 'HDFS_UNAVAILABLE' } : { again };
}

const CODES: Readonly<Record<string, ErrorCode>> = {
  FileNotFoundException: 'NOT_FOUND',
  AccessControlException: 'ACCESS_DENIED',
  AuthorizationException: 'ACCESS_DENIED',
  InvalidToken: 'TOKEN_EXPIRED',
  SecurityException: 'ACCESS_DENIED',
  FileAlreadyExistsException: 'ALREADY_EXISTS',
  PathIsNotEmptyDirectoryException: 'ALREADY_EXISTS',
  QuotaExceededException: 'STORAGE_FULL',
  NSQuotaExceededException: 'STORAGE_FULL',
  DSQuotaExceededException: 'STORAGE_FULL',
  QuotaByStorageTypeExceededException: 'STORAGE_FULL',
};

export function storageError(remote: RemoteException, what: string): TonyError {
  const text = `${remote.message} (${remote.exception})`;
  if (isMissingBelowFile(remote)) {
    return new TonyError('NOT_FOUND', `${what}: ${text}`);
  }
  // WebHDFS reports a rejected token as a SecurityException.
  if (remote.message.includes('SecretManager$InvalidToken')) {
    return new TonyError('TOKEN_EXPIRED', `${what}: ${text}`);
  }
  if (remote.exception === 'IOException' && /could only be (written|replicated) to 0/.test(remote.message)) {
    return new TonyError('STORAGE_FULL', `${what}: no DataNode accepted the data: ${text}`, {
      hint: 'Check that the DataNodes are healthy and have free space.',
    });
  }
  if (remote.message.includes('parameter "user.name"')) {
    return new TonyError('STORAGE_DENIED', `The NameNode does not accept the user name. ${what}: ${text}`, {
      hint: 'Set HADOOP_USER_NAME to your short user name on the cluster, or ask the HDFS admin to allow such names in dfs.webhdfs.user.provider.user.pattern (hdfs-site.xml).',
    });
  }
  return new TonyError(CODES[remote.exception] ?? 'STORAGE_DENIED', `${what}: ${text}`);
}

/** Returns true if a part of the path is a file instead of a folder. The NameNode reports this as an access error. */
export function isMissingBelowFile(remote: RemoteException): boolean {
  return remote.exception === 'AccessControlException' && remote.message.endsWith('(is not a directory)');
}
