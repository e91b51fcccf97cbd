import { TonyError } from '../../platform/errors.ts';
import { isRecord } from '../../platform/is-record.ts';
import { Secret } from '../../platform/secret.ts';

/** The address of an object store, and the access key that signs requests to it. */
export interface S3Connection {
  /** The URL of an S3-compatible store. Null for AWS, because the URL then depends on the region. */
  readonly endpoint: string | null;
  readonly region: string;
  /** True if the bucket is part of the URL's path (`http://host/bucket/key`), and false if it is part of the host name. */
  readonly pathStyle: boolean;
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret;
  /** The session token for temporary credentials. Null for permanent credentials. */
  readonly sessionToken: Secret | null;
}

/** Finds a bucket's object store, and the access key for it. The name '' stands for all buckets that have no specific settings. */
export type FindS3Connection = (bucket: string) => Promise<S3Connection>;

/** The object stores and access keys that a job receives. */
export interface JobConnections {
  /** Connections for the buckets in job.yaml, keyed by bucket. */
  readonly buckets: Readonly<Record<string, S3Connection>>;
  /** Connection for all other buckets. Null if the user has access keys only for certain buckets. */
  readonly others: S3Connection | null;
}

/** Encodes connections, including their secrets, for a container's credentials or for a file with mode 0600. */
export function encodeJobConnections({ buckets, others }: JobConnections): string {
  const named = Object.entries(buckets).map(([bucket, connection]) => [bucket, opened(connection)]);
  return JSON.stringify({ buckets: Object.fromEntries(named), others: others && opened(others) });
}

/** Decodes the output of `encodeJobConnections`. Returns a function that throws TonyError S3_CREDENTIALS_NOT_FOUND for unknown buckets. */
export function decodeJobConnections(encoded: string): FindS3Connection {
  const fields: unknown = JSON.parse(encoded);
  if (!isRecord(fields) || !isRecord(fields.buckets)) {
    throw new TonyError('CREDENTIALS_INVALID', 'The list of connections to object stores is not a JSON object with the field "buckets".');
  }
  const { buckets, others } = fields;
  return async (bucket) => {
    const found = Object.hasOwn(buckets, bucket) ? buckets[bucket] : others;
    if (!isRecord(found)) {
      throw new TonyError('S3_CREDENTIALS_NOT_FOUND', `This job has no access key for the bucket ${bucket}.`, {
        hint: `Name an s3://${bucket}/ URI in job.yaml, for example under data.`,
      });
    }
    return closed(found);
  };
}

/** Returns an encoded connection's fields, with the secrets as plain text. */
function opened({ secretAccessKey, sessionToken, ...connection }: S3Connection): object {
  const text = (secret: Secret): string => Buffer.from(secret.reveal()).toString('utf8');
  return { ...connection, secretAccessKey: text(secretAccessKey), sessionToken: sessionToken && text(sessionToken) };
}

function closed(fields: Record<string, unknown>): S3Connection {
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
