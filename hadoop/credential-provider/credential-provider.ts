import { readFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { fileErrorOf, messageOf } from '../../platform/errors.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';
import { CredentialStoreError } from '../tls/credential-store-error.ts';
import { type CredentialStore, readCredentialStore } from './credential-store.ts';

/*
 * The URI of a credential provider contains the URI of a JCEKS file: jceks://SCHEME@AUTHORITY/PATH is the file SCHEME://AUTHORITY/PATH,
 * and jceks://SCHEME/PATH is the file SCHEME:///PATH. localjceks://file/PATH is also a local file.
 */

/** The property that lists the credential stores for all Hadoop programs. */
export const CREDENTIAL_PROVIDERS = 'hadoop.security.credential.provider.path';
const PASSWORD_FILE = 'hadoop.security.credstore.java-keystore-provider.password-file';
/** The password that Hadoop uses for stores if none is configured. */
const DEFAULT_PASSWORD = 'none';
const LOCAL_STORE = /^(?:local)?jceks:\/\/file@?(\/.+)$/i;
const HDFS_STORE = /^jceks:\/\/(hdfs|webhdfs|swebhdfs|viewfs)(?:@([^/]*))?(\/.+)$/i;

interface Properties {
  get(key: string): string | undefined;
}

export interface CredentialSearch {
  readonly properties: Properties;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The properties that list stores, in search order. */
  readonly keys?: readonly string[];
  /** Reads a file on HDFS, and returns null if the file does not exist. If this function is missing, stores on HDFS are ignored. */
  readonly readHdfs?: (uri: string) => Promise<Buffer | null>;
}

/** Returns the configured stores that tony-ts cannot read, each with the reason. */
export function unsupportedStores({
  properties,
  keys = [CREDENTIAL_PROVIDERS],
}: Pick<CredentialSearch, 'properties' | 'keys'>): readonly { readonly store: string; readonly reason: string }[] {
  return storesOf(properties, keys)
    .filter((store) => !LOCAL_STORE.test(store) && !HDFS_STORE.test(store))
    .map((store) => ({ store, reason: reasonFor(store) }));
}

function reasonFor(store: string): string {
  if (/^user:/i.test(store)) {
    return "it exists only inside Hadoop's Java programs";
  }
  if (/^(local)?bcfks:/i.test(store)) {
    return 'only Java programs with the Bouncy Castle FIPS library can read its format';
  }
  return /^(local)?jceks:/i.test(store) ? 'it is neither a local file nor on HDFS' : 'its type is unknown';
}

/**
 * Returns a function that looks up a password by its alias in Hadoop's credential providers. The function returns the password from the
 * first store that contains the alias, or null if none does. As in Hadoop, missing stores are ignored. Each store is read only once.
 * @throws CredentialStoreError from the returned function
 */
export function credentialFinder(search: CredentialSearch): (alias: string) => Promise<string | null> {
  const { properties, keys = [CREDENTIAL_PROVIDERS] } = search;
  const stores = storesOf(properties, keys).map((name) => ({ name, content: null as Promise<CredentialStore | null> | null }));
  return async (alias) => {
    for (const store of stores) {
      try {
        store.content ??= openStore(store.name, search);
        // Java's key stores convert aliases to lower case.
        const credential = (await store.content)?.get(alias.toLowerCase());
        if (credential !== undefined) {
          return credential();
        }
      } catch (error) {
        throw new CredentialStoreError(`the credential provider ${store.name} cannot be read: ${causeOf(error)}`, { cause: error });
      }
    }
    return null;
  };
}

/** Returns null if the store does not exist or is not supported. */
async function openStore(name: string, search: CredentialSearch): Promise<CredentialStore | null> {
  const bytes = await readStore(name, search);
  return bytes && readCredentialStore(bytes, await passwordOfStores(search));
}

async function readStore(name: string, { readHdfs }: CredentialSearch): Promise<Buffer | null> {
  const [, file] = LOCAL_STORE.exec(name) ?? [];
  if (file !== undefined) {
    return readFile(decodeURIComponent(file)).catch(ifMissing(null));
  }
  const [, scheme, authority = '', path] = HDFS_STORE.exec(name) ?? [];
  return scheme === undefined || path === undefined || readHdfs === undefined
    ? null
    : readHdfs(`${scheme.toLowerCase()}://${authority}${decodeURIComponent(path)}`);
}

function storesOf(properties: Properties, keys: readonly string[]): readonly string[] {
  return keys.flatMap((key) =>
    (properties.get(key) ?? '')
      .split(',')
      .map((store) => store.trim())
      .filter((store) => store !== ''),
  );
}

/** Returns the password for the stores. The password comes from the environment or from the file that PASSWORD_FILE names. */
async function passwordOfStores({ properties, environment }: CredentialSearch): Promise<string> {
  const { HADOOP_CREDSTORE_PASSWORD: given, HADOOP_CONF_DIR: folder, HADOOP_HOME: home } = environment;
  const file = properties.get(PASSWORD_FILE);
  if (given !== undefined || !file) {
    return given ?? DEFAULT_PASSWORD;
  }
  // Hadoop looks for the file on its class path, which starts with the configuration folder.
  const configuration = folder || join(home ?? '', 'etc', 'hadoop');
  return (await readFile(isAbsolute(file) ? file : join(configuration, file), 'utf8')).trim();
}

function causeOf(error: unknown): string {
  return (error instanceof Error && 'code' in error ? fileErrorOf(error) : messageOf(error)).replace(/\.$/, '');
}
