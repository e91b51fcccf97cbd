import { homedir } from 'node:os';
import path from 'node:path';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { CREDENTIAL_PROVIDERS, credentialFinder, unsupportedStores } from '../../hadoop/tls/credential-provider.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { readIfExists } from '../../platform/files/read-if-exists.ts';
import { Secret } from '../../platform/secret.ts';
import type { FindS3Connection, S3Connection } from './s3-connection.ts';

const PREFIX = 'fs.s3a.';

interface Properties {
  get(key: string): string | undefined;
}

/**
 * Returns the properties for a bucket. As in Hadoop, `fs.s3a.bucket.BUCKET.KEY` overrides `fs.s3a.KEY`.
 * @param bucket the bucket's name, or '' for buckets that have no specific properties
 */
function bucketProperties(properties: Properties, bucket: string): Properties {
  return {
    get: (key) =>
      (bucket === '' || !key.startsWith(PREFIX) ? undefined : properties.get(`${PREFIX}bucket.${bucket}.${key.slice(PREFIX.length)}`)) ??
      properties.get(key),
  };
}

type Environment = Readonly<Record<string, string | undefined>>;
type Profile = Readonly<Record<string, string>>;

/**
 * Reads the profile named in AWS_PROFILE, or `default`, from the shared AWS files. Values in the credentials file take precedence over
 * those in the config file. Missing files count as empty.
 */
async function readAwsProfile(environment: Environment): Promise<Profile> {
  const name = environment.AWS_PROFILE || 'default';
  const folder = path.join(environment.HOME || homedir(), '.aws');
  const credentials = environment.AWS_SHARED_CREDENTIALS_FILE || path.join(folder, 'credentials');
  const config = environment.AWS_CONFIG_FILE || path.join(folder, 'config');
  const [keys, settings] = await Promise.all([readIfExists(credentials), readIfExists(config)]);
  // In the config file, profile headings begin with the word `profile`, except for `default`.
  return { ...sectionOf(settings ?? '', [`profile ${name}`, name]), ...sectionOf(keys ?? '', [name]) };
}

/** Returns the values in the named sections of an INI file. Ignores indented lines, because they contain nested values. */
function sectionOf(text: string, names: readonly string[]): Profile {
  const values: Record<string, string> = {};
  let isWanted = false;
  for (const line of text.split(/\r?\n/)) {
    const end = line.indexOf(']');
    if (line.startsWith('[') && end > 0) {
      isWanted = names.includes(line.slice(1, end).trim().replace(/\s+/g, ' '));
      continue;
    }
    const equals = line.indexOf('=');
    if (isWanted && equals > 0 && !/^[\s#;]/.test(line)) {
      values[line.slice(0, equals).trim().toLowerCase()] = withoutComment(line.slice(equals + 1).trim());
    }
  }
  return values;
}

/** Removes a comment. It begins with `#` or `;` after white space. */
function withoutComment(value: string): string {
  const comment = /\s[#;]/.exec(value);
  return comment === null ? value : value.slice(0, comment.index).trimEnd();
}

type Keys = Pick<S3Connection, 'accessKeyId' | 'secretAccessKey' | 'sessionToken'>;

const DEFAULT_REGION = 'us-east-1';
const CREDENTIAL_STORES = ['fs.s3a.security.credential.provider.path', CREDENTIAL_PROVIDERS];

/** Where to look for object store settings on a user's machine. */
export interface S3Sources {
  readonly environment: Environment;
  /** Null if there is no Hadoop configuration. */
  readonly hadoop: HadoopSource | null;
}

export interface HadoopSource {
  readonly configuration: HadoopConfiguration;
  /** Reads a credential provider on HDFS, and returns null if the file does not exist. */
  readonly readHdfs: (uri: string) => Promise<Buffer | null>;
}

/**
 * Returns a function that finds a bucket's object store and the user's access key for it. The access key comes from the first of these
 * sources that has one: the environment, the profile that AWS_PROFILE names, Hadoop's fs.s3a.* properties and credential providers, the
 * `default` profile. Other settings come from the environment, from Hadoop's properties or from the profile, in this order. The function
 * searches only once for each bucket.
 */
export function s3Finder(sources: S3Sources): FindS3Connection {
  const found = new Map<string, Promise<S3Connection>>();
  return (bucket) => {
    const connection = found.get(bucket) ?? findConnection(bucket, sources);
    found.set(bucket, connection);
    return connection;
  };
}

/** @throws TonyError S3_CREDENTIALS_NOT_FOUND, HADOOP_CONF_INVALID */
async function findConnection(bucket: string, { environment, hadoop }: S3Sources): Promise<S3Connection> {
  const profile = await readAwsProfile(environment);
  const properties = hadoop === null ? null : bucketProperties(hadoop.configuration, bucket);
  const named = given(environment.AWS_PROFILE) === undefined ? undefined : keysOf(profile);
  const keys =
    keysOfEnvironment(environment) ??
    named ??
    (hadoop && properties && (await keysOfHadoop(bucket, environment, hadoop, properties))) ??
    keysOf(profile);
  if (keys === undefined) {
    throw missingKeys(environment, properties);
  }
  const endpoint = given(environment.AWS_ENDPOINT_URL_S3) ?? given(environment.AWS_ENDPOINT_URL) ?? hadoopEndpoint(properties) ?? null;
  const style = given(properties?.get('fs.s3a.path.style.access'));
  return {
    endpoint: endpoint === null ? null : checkedUrl(endpoint),
    region:
      given(environment.AWS_REGION) ??
      given(environment.AWS_DEFAULT_REGION) ??
      given(properties?.get('fs.s3a.endpoint.region')) ??
      given(profile.region) ??
      DEFAULT_REGION,
    // By default, the bucket name becomes part of the host name only for AWS. Such host names need DNS entries, which other stores rarely
    // have.
    pathStyle:
      style === undefined ? endpoint !== null && !/\.amazonaws\.com(\.cn)?(:\d+)?\/?$/.test(endpoint) : style.toLowerCase() === 'true',
    ...keys,
  };
}

function keysOfEnvironment(environment: Environment): Keys | undefined {
  return keysFrom(environment.AWS_ACCESS_KEY_ID, environment.AWS_SECRET_ACCESS_KEY, environment.AWS_SESSION_TOKEN);
}

function keysOf(profile: Environment): Keys | undefined {
  return keysFrom(profile.aws_access_key_id, profile.aws_secret_access_key, profile.aws_session_token);
}

/**
 * Returns the access key in Hadoop's configuration. As in Hadoop, a credential provider takes precedence over properties, and a key for the
 * bucket over a general key. A bucket with its own access key does not use the general session token.
 */
async function keysOfHadoop(
  bucket: string,
  environment: Environment,
  { configuration, readHdfs }: HadoopSource,
  properties: Properties,
): Promise<Keys | undefined> {
  const inProviders = credentialFinder({ properties, environment, keys: CREDENTIAL_STORES, readHdfs });
  const find = async (name: string): Promise<string | undefined> =>
    given((await inProviders(name)) ?? undefined) ?? given(configuration.get(name));
  const ofBucket = async (key: string): Promise<string | undefined> =>
    bucket === '' ? undefined : ((await find(`fs.s3a.bucket.${bucket}.${key}`)) ?? (await find(`fs.s3a.bucket.${bucket}.fs.s3a.${key}`)));
  try {
    const id = await ofBucket('access.key');
    return keysFrom(
      id ?? (await find('fs.s3a.access.key')),
      (await ofBucket('secret.key')) ?? (await find('fs.s3a.secret.key')),
      (await ofBucket('session.token')) ?? (id === undefined ? await find('fs.s3a.session.token') : undefined),
    );
  } catch (error) {
    throw new TonyError('S3_CREDENTIALS_NOT_FOUND', `The access key for s3:// URIs is unknown: ${messageOf(error)}.`, {
      hint: hintOf(error),
      cause: error,
    });
  }
}

/** If a credential provider on HDFS could not be read, returns the HDFS error's hint. Otherwise, returns a general hint. */
function hintOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : null;
  return cause instanceof TonyError
    ? cause.hint
    : 'Correct the path or the password (HADOOP_CREDSTORE_PASSWORD) of this store, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.';
}

function keysFrom(id: string | undefined, secret: string | undefined, token: string | undefined): Keys | undefined {
  const [accessKeyId, secretAccessKey, sessionToken] = [given(id), given(secret), given(token)];
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    return undefined;
  }
  return {
    accessKeyId,
    secretAccessKey: secretOf(secretAccessKey),
    sessionToken: sessionToken === undefined ? null : secretOf(sessionToken),
  };
}

function secretOf(text: string): Secret {
  return new Secret(Buffer.from(text));
}

function given(value: string | undefined): string | undefined {
  const trimmed = value?.trim();
  return trimmed === '' ? undefined : trimmed;
}

/** Returns Hadoop's endpoint with a scheme. If the endpoint has no scheme, fs.s3a.connection.ssl.enabled selects the scheme. */
function hadoopEndpoint(properties: Properties | null): string | undefined {
  const endpoint = given(properties?.get('fs.s3a.endpoint'));
  if (endpoint === undefined || /^[a-z]+:\/\//i.test(endpoint)) {
    return endpoint;
  }
  return `${properties?.get('fs.s3a.connection.ssl.enabled')?.toLowerCase() === 'false' ? 'http' : 'https'}://${endpoint}`;
}

function checkedUrl(endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '') {
    throw new TonyError('HADOOP_CONF_INVALID', `The endpoint of the object store, ${endpoint}, is not an http:// or https:// URL.`, {
      hint: 'Correct AWS_ENDPOINT_URL, or fs.s3a.endpoint in core-site.xml.',
    });
  }
  return endpoint;
}

function missingKeys(environment: Environment, properties: Properties | null): TonyError {
  const [unsupported] = properties === null ? [] : unsupportedStores({ properties, keys: CREDENTIAL_STORES });
  if (unsupported !== undefined) {
    const { store, reason } = unsupported;
    return new TonyError('S3_CREDENTIALS_NOT_FOUND', `tony-ts cannot read the credential provider ${store}: ${reason}.`, {
      hint: 'Store the keys with `hadoop credential create` in a provider jceks://hdfs@NAMENODE/PATH or jceks://file/PATH, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to the values in this provider, or set AWS_PROFILE.',
    });
  }
  const providers = given(properties?.get('fs.s3a.aws.credentials.provider'));
  if (providers !== undefined) {
    return new TonyError('S3_CREDENTIALS_NOT_FOUND', `fs.s3a.aws.credentials.provider is ${providers}, which tony-ts does not support.`, {
      hint: 'Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN.',
    });
  }
  const names = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] as const;
  const [set] = names.filter((name) => given(environment[name]) !== undefined);
  const [unset] = names.filter((name) => given(environment[name]) === undefined);
  if (set !== undefined && unset !== undefined) {
    return new TonyError('S3_CREDENTIALS_NOT_FOUND', `${set} is set, but ${unset} is not.`, { hint: `Set ${unset} as well.` });
  }
  const profile = given(environment.AWS_PROFILE);
  const where = profile === undefined ? "the environment, Hadoop's properties or the default profile" : `the profile ${profile}`;
  return new TonyError('S3_CREDENTIALS_NOT_FOUND', `No access key for s3:// URIs was found in ${where}.`);
}
