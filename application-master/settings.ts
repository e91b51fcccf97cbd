import { createHash } from 'node:crypto';
import { type ContainerInputs, CREDENTIALS_VARIABLE, readContainerInputs } from '../conf/container-inputs.ts';
import { CREDENTIALS, type FrozenJob } from '../conf/job.ts';
import { parseFrozenJob } from '../conf/resolve/frozen-job.ts';
import { applicationOf, parseContainerId } from '../hadoop/rpc/application-id.ts';
import { type Credentials, MASTER_TOKEN_KIND } from '../hadoop/rpc/credentials.ts';
import { TonyError } from '../platform/errors.ts';
import { sameSecret } from '../platform/same-secret.ts';
import type { Secret } from '../platform/secret.ts';
import type { OwnNode } from './gatekeeper.ts';

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
  const { variable, secret, job, credentials } = await readSubmittedInputs(environment, folder);
  const frozenText = job.toString('utf8');
  const frozen = parseFrozenJob(frozenText);
  refuseLocal(frozen, credentials);
  return {
    frozen,
    frozenText,
    attempt: parseContainerId(variable('CONTAINER_ID')).attempt,
    host: variable('NM_HOST'),
    node: {
      jobId: applicationOf(variable('CONTAINER_ID')),
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

/**
 * Reads the ApplicationMaster's inputs, and rejects a job.json that was modified after it was submitted. Users cannot change the digest in
 * the credentials, because YARN stores the credentials when the job is submitted.
 * @throws TonyError CONTAINER_INVALID, JOB_INVALID, CREDENTIALS_INVALID
 */
export async function readSubmittedInputs(
  environment: Readonly<Record<string, string | undefined>>,
  folder: string,
): Promise<ContainerInputs> {
  const inputs = await readContainerInputs(environment, folder);
  if (!sameSecret(createHash('sha256').update(inputs.job).digest(), inputs.secret(CREDENTIALS.jobDigest).reveal())) {
    throw new TonyError('JOB_INVALID', 'job.json is not the submitted file: its digest differs from the digest in the credentials.', {
      hint: 'Submit the job again.',
    });
  }
  return inputs;
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
