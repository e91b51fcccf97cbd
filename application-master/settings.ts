import { CREDENTIALS_VARIABLE, readContainerInputs } from '../conf/container-inputs.ts';
import { CREDENTIALS, type FrozenJob } from '../conf/job.ts';
import { parseFrozenJob } from '../conf/resolve/frozen-job.ts';
import { applicationOf, parseContainerId } from '../hadoop/rpc/application-id.ts';
import { type Credentials, MASTER_TOKEN_KIND } from '../hadoop/rpc/credentials.ts';
import { TonyError } from '../platform/errors.ts';
import type { Secret } from '../platform/secret.ts';
import type { OwnNode } from './admission/gatekeeper.ts';
import { isSubmitted } from './submitted-job.ts';

export interface MasterSecrets {
  readonly jobSecret: Secret;
  readonly certificate: Secret;
  readonly privateKey: Secret;
  /** The encoded JobConnections, or null if the job does not use s3:// URIs. */
  readonly s3: Secret | null;
}

/** The ApplicationMaster's settings from its environment, its credentials and job.json. */
export interface MasterSettings {
  readonly frozen: FrozenJob;
  readonly frozenText: string;
  readonly attempt: number;
  /** Host name that other hosts use to reach this machine. */
  readonly host: string;
  readonly node: OwnNode;
  readonly credentials: Credentials;
  readonly credentialsFile: string;
  /** Absolute path of the container's working directory. */
  readonly folder: string;
  readonly secrets: MasterSecrets;
}

/**
 * Reads the settings from the environment and the container's folder.
 * @throws TonyError CONTAINER_INVALID, JOB_INVALID, CREDENTIALS_INVALID
 */
export async function readSettings(environment: Readonly<Record<string, string | undefined>>, folder: string): Promise<MasterSettings> {
  const { variable, secret, job, credentials } = await readContainerInputs(environment, folder);
  const frozenText = job.toString('utf8');
  refuseReplaced(job, secret(CREDENTIALS.jobDigest));
  const frozen = parseFrozenJob(frozenText);
  refuseLocal(frozen, credentials);
  return {
    frozen,
    frozenText,
    attempt: parseContainerId(variable('CONTAINER_ID')).attempt,
    host: variable('NM_HOST'),
    node: {
      applicationId: applicationOf(variable('CONTAINER_ID')),
      user: environment.USER ?? '',
      httpPort: Number(environment.NM_HTTP_PORT ?? 0),
    },
    credentials,
    credentialsFile: variable(CREDENTIALS_VARIABLE),
    folder,
    secrets: {
      jobSecret: secret(CREDENTIALS.jobSecret),
      certificate: secret(CREDENTIALS.certificate),
      privateKey: secret(CREDENTIALS.privateKey),
      s3: credentials.secrets.get(CREDENTIALS.s3) ?? null,
    },
  };
}

function refuseReplaced(job: Buffer, digest: Secret): void {
  if (!isSubmitted(job, digest)) {
    throw new TonyError('JOB_INVALID', 'job.json is not the submitted file: its digest differs from the digest in the credentials.', {
      hint: 'Submit the job again.',
    });
  }
}

/** Rejects a local job in a YARN container. A local job does not have a gatekeeper and would bypass all quotas. */
function refuseLocal({ cluster }: FrozenJob, { tokens }: Credentials): void {
  if (cluster.kind === 'yarn' || !tokens.some(({ token }) => token.kind === MASTER_TOKEN_KIND)) {
    return;
  }
  throw new TonyError('JOB_INVALID', `job.json belongs to a job with cluster.kind ${cluster.kind}, but YARN runs it.`, {
    hint: 'Submit the job with tony-ts submit, without --local.',
  });
}
