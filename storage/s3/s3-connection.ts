import { TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';
import { Secret } from '../../platform/secret.ts';

/** How to reach an object store and how to sign requests to it. */
export interface S3Connection {
  /** The URL of an S3-compatible store; null for AWS, whose URL depends on the region. */
  readonly endpoint: string | null;
  readonly region: string;
  /** If true, the bucket is part of the path (`http://host/bucket/key`), otherwise of the host name. */
  readonly pathStyle: boolean;
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret;
  /** The token of temporary credentials; null for permanent ones. */
  readonly sessionToken: Secret | null;
}

/** Encodes a connection, with its secrets, for a container's credentials or a file of mode 0600. */
export function encodeS3Connection({ secretAccessKey, sessionToken, ...connection }: S3Connection): string {
  const text = (secret: Secret): string => Buffer.from(secret.reveal()).toString('utf8');
  return JSON.stringify({ ...connection, secretAccessKey: text(secretAccessKey), sessionToken: sessionToken && text(sessionToken) });
}

/** Decodes the output of `encodeS3Connection`. */
export function decodeS3Connection(encoded: string): S3Connection {
  const fields: unknown = JSON.parse(encoded);
  if (!isRecord(fields)) {
    throw new TonyError('CREDENTIALS_INVALID', 'The connection to the object store is not a JSON object.');
  }
  const secret = (value: unknown): Secret => new Secret(Buffer.from(String(value)));
  return {
    endpoint: typeof fields.endpoint === 'string' ? fields.endpoint : null,
    region: String(fields.region),
    pathStyle: fields.pathStyle === true,
    accessKeyId: String(fields.accessKeyId),
    secretAccessKey: secret(fields.secretAccessKey),
    sessionToken: typeof fields.sessionToken === 'string' ? secret(fields.sessionToken) : null,
  };
}
