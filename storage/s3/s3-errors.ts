import { messageOf, TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';

const DENIED = ['AccessDenied', 'InvalidAccessKeyId', 'SignatureDoesNotMatch', 'ExpiredToken', 'InvalidToken', 'RequestTimeTooSkewed'];
const NEW_CREDENTIALS = 'Obtain new temporary credentials (AWS_SESSION_TOKEN), and submit the job again.';
/** Next steps for answers that do not concern permissions. */
const DENIED_HINTS: Readonly<Record<string, string>> = {
  InvalidAccessKeyId: 'The object store does not know the access key: check AWS_ACCESS_KEY_ID or fs.s3a.access.key, and the endpoint.',
  SignatureDoesNotMatch: 'The secret does not belong to the access key: check AWS_SECRET_ACCESS_KEY or fs.s3a.secret.key.',
  ExpiredToken: NEW_CREDENTIALS,
  InvalidToken: NEW_CREDENTIALS,
  RequestTimeTooSkewed: "Set this machine's clock: it differs too much from that of the object store.",
};
const DENIED_FOR_UNKNOWN_REASON =
  'Check the access key and its secret (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or fs.s3a.access.key and fs.s3a.secret.key), and that the key has access to the bucket.';
const FULL = ['QuotaExceeded', 'EntityTooLarge', 'InsufficientStorage', 'XMinioStorageFull'];

/** Returns the HTTP status of an SDK error, or undefined if there was no response. */
export function statusOf(error: unknown): number | undefined {
  const metadata = isRecord(error) ? error.$metadata : undefined;
  return isRecord(metadata) && typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}

/** Returns true for an error in a request to the store. Errors in the caller's own streams have no metadata. */
export function isRequestError(error: unknown): boolean {
  return isRecord(error) && '$metadata' in error;
}

/** Converts an SDK error to a TonyError. */
export function s3Error(error: unknown, uri: string): TonyError {
  const status = statusOf(error);
  const name = error instanceof Error ? error.name : '';
  // The response to a HEAD request has no body, so the SDK's message is only generic.
  const message = `${uri}: ${[name, messageOf(error)].filter((text, at, all) => text !== '' && all.indexOf(text) === at).join(': ')}`;
  const options = { cause: error };
  if (name === 'NoSuchBucket') {
    return new TonyError('NOT_FOUND', `${uri}: the bucket does not exist.`, options);
  }
  if (status === 404) {
    return new TonyError('NOT_FOUND', `${uri} does not exist.`, options);
  }
  if (status === 401 || status === 403 || DENIED.includes(name)) {
    // A response without a body, such as that to a HEAD request, does not tell a wrong secret from a missing permission.
    const hint = DENIED_HINTS[name] ?? (name === 'AccessDenied' ? undefined : DENIED_FOR_UNKNOWN_REASON);
    return new TonyError('ACCESS_DENIED', message, { ...options, ...(hint !== undefined && { hint }) });
  }
  if (status === 507 || FULL.includes(name)) {
    return new TonyError('STORAGE_FULL', message, options);
  }
  if (status === undefined || status >= 500 || status === 408 || status === 429) {
    return new TonyError('S3_UNREACHABLE', message, options);
  }
  if (status === 301 || status === 400) {
    const hint = 'Check the region (AWS_REGION, fs.s3a.endpoint.region) and fs.s3a.path.style.access.';
    return new TonyError('STORAGE_DENIED', message, { ...options, hint });
  }
  return new TonyError('STORAGE_DENIED', message, options);
}
