import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { CREDENTIAL_PROVIDERS, findCredential, unsupportedStores } from '../../hadoop/credential-provider/credential-provider.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import { readAwsProfile } from './aws-profile.ts';
import type { S3Connection } from './s3-connection.ts';

type Environment = Readonly<Record<string, string | undefined>>;
type Keys = Pick<S3Connection, 'accessKeyId' | 'secretAccessKey' | 'sessionToken'>;

const DEFAULT_REGION = 'us-east-1';
const CREDENTIAL_STORES = ['fs.s3a.security.credential.provider.path', CREDENTIAL_PROVIDERS];

/**
 * Finds the object store and the access key on the user's machine. The first source that has an access key applies: the environment, the
 * profile that AWS_PROFILE names, Hadoop's fs.s3a.* properties and credential providers, the profile `default`. For the other settings, the environment precedes
 * Hadoop's properties, which precede the profile.
 * @param hadoop null if no Hadoop configuration exists.
 * @throws TonyError S3_CREDENTIALS_MISSING, HADOOP_CONF_INVALID
 */
export async function findS3Connection(environment: Environment, hadoop: HadoopConfiguration | null): Promise<S3Connection> {
  const profile = await readAwsProfile(environment);
  const named = given(environment.AWS_PROFILE) === undefined ? undefined : keysOf(profile);
  const keys = keysOfEnvironment(environment) ?? named ?? (await keysOfHadoop(environment, hadoop)) ?? keysOf(profile);
  if (keys === undefined) {
    throw missingKeys(environment, hadoop);
  }
  const endpoint = given(environment.AWS_ENDPOINT_URL_S3) ?? given(environment.AWS_ENDPOINT_URL) ?? hadoopEndpoint(hadoop) ?? null;
  const style = given(hadoop?.get('fs.s3a.path.style.access'));
  return {
    endpoint: endpoint === null ? null : checkedUrl(endpoint),
    region:
      given(environment.AWS_REGION) ??
      given(environment.AWS_DEFAULT_REGION) ??
      given(hadoop?.get('fs.s3a.endpoint.region')) ??
      given(profile.region) ??
      DEFAULT_REGION,
    // Host names that contain the bucket need DNS entries, which S3-compatible stores rarely have.
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

/** Like Hadoop, prefers the keys in credential providers. */
async function keysOfHadoop(environment: Environment, hadoop: HadoopConfiguration | null): Promise<Keys | undefined> {
  if (hadoop === null) {
    return undefined;
  }
  const search = { properties: hadoop, environment, keys: CREDENTIAL_STORES };
  const find = async (name: string): Promise<string | undefined> => (await findCredential(name, search)) ?? hadoop.get(name);
  try {
    return keysFrom(await find('fs.s3a.access.key'), await find('fs.s3a.secret.key'), await find('fs.s3a.session.token'));
  } catch (error) {
    throw new TonyError('S3_CREDENTIALS_MISSING', `The access key for s3:// URIs is unknown: ${messageOf(error)}.`, {
      hint: 'Correct the path or the password (HADOOP_CREDSTORE_PASSWORD) of this store, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
      cause: error,
    });
  }
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

/** Hadoop's endpoint may lack a scheme; fs.s3a.connection.ssl.enabled then selects it. */
function hadoopEndpoint(hadoop: HadoopConfiguration | null): string | undefined {
  const endpoint = given(hadoop?.get('fs.s3a.endpoint'));
  if (endpoint === undefined || /^[a-z]+:\/\//i.test(endpoint)) {
    return endpoint;
  }
  return `${hadoop?.get('fs.s3a.connection.ssl.enabled')?.toLowerCase() === 'false' ? 'http' : 'https'}://${endpoint}`;
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

function missingKeys(environment: Environment, hadoop: HadoopConfiguration | null): TonyError {
  const [store] = hadoop === null ? [] : unsupportedStores({ properties: hadoop, environment, keys: CREDENTIAL_STORES });
  if (store !== undefined) {
    return new TonyError('S3_CREDENTIALS_MISSING', `The configuration names the credential provider ${store}, which tony-ts cannot read.`, {
      hint: 'Use a local store (jceks://file/PATH or localjceks://file/PATH), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to the values that this credential provider holds, or use AWS_PROFILE.',
    });
  }
  const providers = given(hadoop?.get('fs.s3a.aws.credentials.provider'));
  if (providers !== undefined) {
    return new TonyError('S3_CREDENTIALS_MISSING', `fs.s3a.aws.credentials.provider is ${providers}, which tony-ts does not support.`, {
      hint: 'Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN.',
    });
  }
  const profile = given(environment.AWS_PROFILE);
  const where = profile === undefined ? "the environment, Hadoop's properties or the profile default" : `the profile ${profile}`;
  return new TonyError('S3_CREDENTIALS_MISSING', `No access key for s3:// URIs was found in ${where}.`);
}
