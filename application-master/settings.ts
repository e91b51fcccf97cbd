import { readFile } from 'node:fs/promises';
import { messageOf, TonyError } from '../conf/errors.ts';
import { parseFrozenJob } from '../conf/frozen-job.ts';
import { CONTAINER_LAYOUT, CREDENTIALS, type FrozenJob } from '../conf/job.ts';
import type { Secret } from '../conf/secret.ts';
import { applicationOf, parseContainerId } from '../hadoop/application-id.ts';
import { type Credentials, decodeCredentials } from '../hadoop/credentials.ts';

/** What the ApplicationMaster is told by its container. */
export interface MasterSettings {
  readonly frozen: FrozenJob;
  /** job.json as it is. */
  readonly frozenText: string;
  readonly attempt: number;
  /** Name of this host, as others reach it. */
  readonly host: string;
  /** What the NodeManager itself says, over anything that an environment of the user's says: job.json may be anybody's. */
  readonly node: {
    readonly applicationId: string;
    /** Empty on the user's own machine, where there is no NodeManager. */
    readonly user: string;
    /** Of its web server; 0 likewise. */
    readonly httpPort: number;
  };
  readonly credentials: Credentials;
  readonly secrets: { readonly jobSecret: Secret; readonly certificate: Secret; readonly privateKey: Secret };
}

/** @throws TonyError CONTAINER_INVALID, JOB_INVALID, CREDENTIALS_INVALID */
export async function readSettings(environment: Readonly<Record<string, string | undefined>>, folder: string): Promise<MasterSettings> {
  const variable = (name: string): string => {
    const value = environment[name];
    if (value === undefined || value === '') throw new TonyError('CONTAINER_INVALID', `The environment variable ${name} is missing.`);
    return value;
  };
  const files = [`${folder}/${CONTAINER_LAYOUT.job}`, variable('HADOOP_TOKEN_FILE_LOCATION')] as const;
  const [job, tokens] = await Promise.all([readContainerFile(files[0]), readContainerFile(files[1])]);
  const frozenText = job.toString('utf8');
  const credentials = decodeCredentials(tokens);
  const secret = (name: string): Secret => {
    const value = credentials.secrets.get(name);
    if (value === undefined) throw new TonyError('CONTAINER_INVALID', `The container's credentials have no entry ${name}.`);
    return value;
  };
  return {
    frozen: parseFrozenJob(frozenText),
    frozenText,
    attempt: parseContainerId(variable('CONTAINER_ID')).attempt,
    host: variable('NM_HOST'),
    node: {
      applicationId: applicationOf(variable('CONTAINER_ID')),
      user: environment.USER ?? '',
      httpPort: Number(environment.NM_HTTP_PORT ?? 0),
    },
    credentials,
    secrets: {
      jobSecret: secret(CREDENTIALS.jobSecret),
      certificate: secret(CREDENTIALS.certificate),
      privateKey: secret(CREDENTIALS.privateKey),
    },
  };
}

async function readContainerFile(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new TonyError('CONTAINER_INVALID', `${file} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}
