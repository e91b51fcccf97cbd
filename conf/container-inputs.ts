import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Credentials, decodeCredentials } from '../hadoop/rpc/credentials.ts';
import { messageOf, TonyError } from '../platform/errors.ts';
import type { Secret } from '../platform/secret.ts';
import { CONTAINER_LAYOUT } from './job.ts';

/** The inputs of a process in a YARN container: environment variables, job.json and credentials. */
export interface ContainerInputs {
  /**
   * Returns an environment variable.
   * @throws TonyError CONTAINER_INVALID if the variable is missing or empty
   */
  readonly variable: (name: string) => string;
  /**
   * Returns an entry from the credentials.
   * @throws TonyError CONTAINER_INVALID if the entry is missing
   */
  readonly secret: (name: string) => Secret;
  readonly job: Buffer;
  readonly credentials: Credentials;
}

export const CREDENTIALS_VARIABLE = 'HADOOP_TOKEN_FILE_LOCATION';

/**
 * Reads the inputs of the current container.
 * @param folder absolute path of the container's working directory
 * @throws TonyError CONTAINER_INVALID, CREDENTIALS_INVALID
 */
export async function readContainerInputs(
  environment: Readonly<Record<string, string | undefined>>,
  folder: string,
): Promise<ContainerInputs> {
  const variable = (name: string): string => {
    const value = environment[name];
    if (value === undefined || value === '') {
      throw new TonyError('CONTAINER_INVALID', `The environment variable ${name} is missing.`);
    }
    return value;
  };
  const files = [path.join(folder, CONTAINER_LAYOUT.job), variable(CREDENTIALS_VARIABLE)] as const;
  const [job, tokens] = await Promise.all([readContainerFile(files[0]), readContainerFile(files[1])]);
  const credentials = decodeCredentials(tokens);
  const secret = (name: string): Secret => {
    const value = credentials.secrets.get(name);
    if (value === undefined) {
      throw new TonyError('CONTAINER_INVALID', `The container's credentials have no entry ${name}.`);
    }
    return value;
  };
  return { variable, secret, job, credentials };
}

async function readContainerFile(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new TonyError('CONTAINER_INVALID', `${file} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}
