import { readFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { fileErrorOf, messageOf } from '../../platform/errors.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';
import { CredentialStoreError } from '../tls/credential-store-error.ts';
import { readCredentialStore } from './credential-store.ts';

/** The property with the list of stores that all of Hadoop's programs read. */
export const CREDENTIAL_PROVIDERS = 'hadoop.security.credential.provider.path';
const PASSWORD_FILE = 'hadoop.security.credstore.java-keystore-provider.password-file';
/** Hadoop's password of stores that have no other one. */
const DEFAULT_PASSWORD = 'none';
/** Stores in local files: `jceks://file/path`, `localjceks://file/path`, also with `file@` as the authority. */
const LOCAL_STORE = /^(?:local)?jceks:\/\/file@?(\/.+)$/i;

interface Properties {
  get(key: string): string | undefined;
}

export interface CredentialSearch {
  readonly properties: Properties;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The properties that list stores, in the order of the search. */
  readonly keys?: readonly string[];
}

/** Returns the stores in the configuration that tony-ts cannot read, because they are not local JCEKS files. */
export function unsupportedStores({ properties, keys = [CREDENTIAL_PROVIDERS] }: CredentialSearch): readonly string[] {
  return storesOf(properties, keys).filter((store) => !LOCAL_STORE.test(store));
}

/**
 * Finds a password in Hadoop's credential providers. Like Hadoop, ignores a store that does not exist, and prefers the first store with the
 * alias. Returns null if no readable store has the alias.
 * @throws CredentialStoreError
 */
export async function findCredential(alias: string, search: CredentialSearch): Promise<string | null> {
  const { properties, keys = [CREDENTIAL_PROVIDERS] } = search;
  for (const store of storesOf(properties, keys)) {
    const [, file] = LOCAL_STORE.exec(store) ?? [];
    if (file === undefined) {
      continue;
    }
    try {
      const bytes = await readFile(decodeURI(file)).catch(ifMissing(null));
      const credential = bytes === null ? undefined : readCredentialStore(bytes, await passwordOfStores(search)).get(alias);
      if (credential !== undefined) {
        return credential();
      }
    } catch (error) {
      throw new CredentialStoreError(`the credential provider ${store} cannot be read: ${causeOf(error)}`, { cause: error });
    }
  }
  return null;
}

function storesOf(properties: Properties, keys: readonly string[]): readonly string[] {
  return keys.flatMap((key) =>
    (properties.get(key) ?? '')
      .split(',')
      .map((store) => store.trim())
      .filter((store) => store !== ''),
  );
}

/** Returns the password of the stores themselves: from the environment, or from a file that a property names. */
async function passwordOfStores({ properties, environment }: CredentialSearch): Promise<string> {
  const { HADOOP_CREDSTORE_PASSWORD: given, HADOOP_CONF_DIR: folder, HADOOP_HOME: home } = environment;
  const file = properties.get(PASSWORD_FILE);
  if (given !== undefined || !file) {
    return given ?? DEFAULT_PASSWORD;
  }
  // Hadoop searches its class path, which starts with the configuration folder.
  const configuration = folder || join(home ?? '', 'etc', 'hadoop');
  return (await readFile(isAbsolute(file) ? file : join(configuration, file), 'utf8')).trim();
}

function causeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? fileErrorOf(error) : messageOf(error);
}
