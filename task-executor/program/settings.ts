import { existsSync } from 'node:fs';
import path from 'node:path';
import { CREDENTIALS_VARIABLE, readContainerInputs } from '../../conf/container-inputs.ts';
import { CREDENTIALS, type FrozenJob, type Role } from '../../conf/job.ts';
import { type Credentials, decodeCredentials } from '../../hadoop/rpc/credentials.ts';
import { writeCredentials } from '../../hadoop/rpc/credentials-file.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Secret } from '../../platform/secret.ts';

/** Name of the program's credentials file, which is in the container's folder. */
const PROGRAM_FILE = 'delegation-tokens';

/**
 * Stores the delegation tokens in two files, one for the executor and one for its program. Replaces both files when new tokens arrive, so
 * that neither process has to restart.
 */
export class DelegationTokens {
  readonly #ownFile: string;
  readonly #programFile: string;
  #credentials: Credentials;
  /** Serialises the writes. */
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param ownFile the executor's credentials file, which also contains the executor's own secrets
   * @param folder the container's working directory
   */
  constructor(ownFile: string, folder: string, credentials: Credentials) {
    this.#ownFile = ownFile;
    this.#programFile = path.join(folder, PROGRAM_FILE);
    this.#credentials = credentials;
  }

  /**
   * Writes the tokens, without the executor's own secrets, to a file for the program. Returns the file's path, or null if there are no
   * tokens, for example on a cluster without Kerberos.
   */
  async writeForProgram(): Promise<string | null> {
    if (this.#credentials.tokens.length === 0) {
      return null;
    }
    await this.#inOrder(() => writeCredentials(this.#programFile, this.#tokensOnly()));
    return this.#programFile;
  }

  /**
   * Replaces the tokens with those in an encoded credentials file.
   * @throws TonyError CREDENTIALS_INVALID
   */
  async replace(encoded: Uint8Array): Promise<void> {
    const { tokens } = decodeCredentials(encoded);
    this.#credentials = { ...this.#credentials, tokens };
    await this.#inOrder(async () => {
      await writeCredentials(this.#ownFile, this.#credentials);
      if (existsSync(this.#programFile)) {
        await writeCredentials(this.#programFile, this.#tokensOnly());
      }
    });
  }

  #tokensOnly(): Credentials {
    return { tokens: this.#credentials.tokens, secrets: new Map() };
  }

  #inOrder(write: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(write);
    this.#writing = done.catch(() => {});
    return done;
  }
}

/** The executor's settings, read from the container's environment, its working directory and the credentials file. */
export interface ExecutorSettings {
  readonly frozen: FrozenJob;
  readonly role: Role;
  readonly index: number;
  readonly containerId: string;
  readonly folder: string;
  readonly logFolder: string;
  /** Host name that peers use to connect to this container. */
  readonly host: string;
  readonly master: { readonly host: string; readonly port: number };
  /** Certificate in PEM format. */
  readonly certificate: Secret;
  readonly privateKey: Secret;
  readonly ringKey: Secret;
  readonly containerProof: Secret;
  /** The encoded JobConnections for the program, or null if the job does not use s3:// URIs. */
  readonly s3: Secret | null;
  readonly tokens: DelegationTokens;
}

export const EXECUTOR_ENVIRONMENT = {
  master: 'TONY_MASTER',
  role: 'TONY_ROLE',
  index: 'TONY_INDEX',
  containerId: 'CONTAINER_ID',
  credentials: CREDENTIALS_VARIABLE,
  logFolders: 'LOG_DIRS',
  host: 'NM_HOST',
} as const;

/**
 * Reads the current container's settings.
 * @throws TonyError CONTAINER_INVALID if a setting is missing or invalid, CREDENTIALS_INVALID
 */
export async function readSettings(environment: Readonly<Record<string, string | undefined>>, folder: string): Promise<ExecutorSettings> {
  const { variable, secret, job, credentials } = await readContainerInputs(environment, folder);
  const frozen = parseCheckedJob(job.toString('utf8'));
  const roleName = variable(EXECUTOR_ENVIRONMENT.role);
  const role = frozen.job.roles.find(({ name }) => name === roleName);
  const index = Number(variable(EXECUTOR_ENVIRONMENT.index));
  if (role === undefined || !Number.isInteger(index) || index < 0 || index >= role.maxInstances) {
    throw new TonyError('CONTAINER_INVALID', `job.json does not contain the task ${roleName}:${environment[EXECUTOR_ENVIRONMENT.index]}.`);
  }
  return {
    frozen,
    role,
    index,
    containerId: variable(EXECUTOR_ENVIRONMENT.containerId),
    folder,
    logFolder: variable(EXECUTOR_ENVIRONMENT.logFolders).split(',')[0] ?? '',
    host: variable(EXECUTOR_ENVIRONMENT.host),
    master: parseAddress(variable(EXECUTOR_ENVIRONMENT.master)),
    certificate: secret(CREDENTIALS.certificate),
    privateKey: secret(CREDENTIALS.privateKey),
    ringKey: secret(CREDENTIALS.ringKey),
    containerProof: secret(CREDENTIALS.containerProof),
    s3: credentials.secrets.get(CREDENTIALS.s3) ?? null,
    tokens: new DelegationTokens(variable(EXECUTOR_ENVIRONMENT.credentials), folder, credentials),
  };
}

/**
 * Parses job.json. Does not validate its content, because the ApplicationMaster has validated it, and the validator would need 2 MiB of
 * memory per container.
 * @throws TonyError CONTAINER_INVALID
 */
export function parseCheckedJob<T extends { readonly version: 1 } = FrozenJob>(text: string): T {
  let job: T;
  try {
    job = JSON.parse(text) as T;
  } catch (error) {
    throw new TonyError('CONTAINER_INVALID', `job.json is not valid JSON: ${messageOf(error)}.`, { cause: error });
  }
  if (job.version !== 1) {
    throw new TonyError('CONTAINER_INVALID', `job.json has the unknown version ${String(job.version)}.`);
  }
  return job;
}

/** Parses `host:port`. An IPv6 address can be enclosed in brackets. */
export function parseAddress(text: string): { host: string; port: number } {
  const [, host = '', digits = ''] = /^(.*):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (host === '' || port < 1 || port > 65_535) {
    throw new TonyError('CONTAINER_INVALID', `"${text}" is not a valid host:port.`);
  }
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port };
}
