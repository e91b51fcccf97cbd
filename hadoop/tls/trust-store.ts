import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileErrorOf, messageOf, TonyError } from '../../platform/errors.ts';
import { CredentialStoreError } from './credential-store-error.ts';
import { isJavaKeyStore, readJavaKeyStore, WrongPassword } from './java-key-store.ts';
import { certificatesIn, toPem } from './pem.ts';

const LIMIT_MS = 30_000;
const MAXIMUM_BYTES = 16 * 1024 * 1024;
const AS_PEM = 'Export the certificate with `keytool -exportcert -rfc`, and name the PEM file as tls.ca in tony-site.yaml.';

/** A Java truststore or PEM file that ssl-client.xml names. */
export interface TrustStore {
  readonly location: string;
  /** The configured password, or null if there is none. */
  readonly password: string | null;
  /**
   * Looks up the password in Hadoop's credential providers, and returns null if it is not there. It takes precedence over the configured
   * password.
   */
  readonly storedPassword?: () => Promise<string | null>;
}

/**
 * Returns the trusted certificates in a Java truststore (JKS or PKCS #12) or a PEM file, converted to PEM format. Detects the format from
 * the file's content, as Java does, because Hadoop's configuration calls both Java formats `jks`.
 * @throws TonyError TRUST_STORE_UNREADABLE
 */
export async function readTrustStore({ location, password, storedPassword = async () => null }: TrustStore): Promise<string> {
  const bytes = await readStore(location);
  try {
    if (isJavaKeyStore(bytes)) {
      // Use a stored password only if necessary, because decrypting it takes a third of a second. The certificates in a JKS file are not
      // encrypted.
      const used = password === null ? null : ((await storedPassword()) ?? password);
      return readJavaKeyStore(bytes, used)
        .trusted.map((each) => toPem(each))
        .join('');
    }
    // A PKCS #12 file starts with the tag of a DER SEQUENCE.
    return bytes[0] === 0x30 ? await readPkcs12(location, (await storedPassword()) ?? password) : certificatesIn(bytes.toString('latin1'));
  } catch (error) {
    if (error instanceof TonyError) {
      throw error;
    }
    const hint =
      error instanceof WrongPassword
        ? 'Correct ssl.client.truststore.password in the ssl-client.xml of HADOOP_CONF_DIR.'
        : error instanceof CredentialStoreError
          ? `Correct hadoop.security.credential.provider.path, or the password of this store (HADOOP_CREDSTORE_PASSWORD). ${AS_PEM}`
          : `Use a truststore in JKS or PKCS12 format. ${AS_PEM}`;
    throw unreadable(location, messageOf(error), hint, error);
  }
}

/**
 * Returns the certificates in a PEM file.
 * @throws TonyError TRUST_STORE_UNREADABLE
 */
export async function readPemFile(file: string): Promise<string> {
  const bytes = await readStore(file);
  try {
    return certificatesIn(bytes.toString('latin1'));
  } catch (error) {
    throw unreadable(file, messageOf(error), 'Name a PEM file with the certificates of the authorities.', error);
  }
}

async function readStore(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const hint = 'Correct the path, or ask the cluster admin to make the file readable by all users.';
    throw unreadable(file, fileErrorOf(error), hint, error);
  }
}

function unreadable(file: string, why: string, hint: string, cause?: unknown): TonyError {
  return new TonyError('TRUST_STORE_UNREADABLE', `The trusted certificates in ${file} cannot be read: ${why.replace(/\.$/, '')}.`, {
    hint,
    ...(cause === undefined ? {} : { cause }),
  });
}

/**
 * Decrypts the certificates with the system's openssl. Node.js can read PKCS #12 files only if they contain a private key, and does not
 * support RC2, the cipher that older Java versions use.
 */
async function readPkcs12(file: string, password: string | null): Promise<string> {
  let found = await openssl(file, password ?? '', []);
  if (found.exitCode !== 0 && /unsupported/i.test(found.stderr)) {
    found = await openssl(file, password ?? '', ['-legacy']);
  }
  if (found.exitCode === 0) {
    return certificatesIn(found.stdout);
  }
  if (!/mac verify/i.test(found.stderr)) {
    throw new Error(`openssl reports ${found.stderr.trim().split('\n')[0]}`);
  }
  if (password === null) {
    throw unreadable(file, 'a PKCS12 truststore needs a password', `Set ssl.client.truststore.password in ssl-client.xml. ${AS_PEM}`);
  }
  throw new WrongPassword();
}

/** Runs openssl. The password is sent to its stdin, because other users can see command-line arguments. */
function openssl(
  file: string,
  password: string,
  options: readonly string[],
): Promise<{ readonly exitCode: number | null; readonly stdout: string; readonly stderr: string }> {
  const args = ['pkcs12', ...options, '-in', file, '-nokeys', '-passin', 'stdin'];
  return new Promise((resolve, reject) => {
    const child = execFile('openssl', args, { timeout: LIMIT_MS, maxBuffer: MAXIMUM_BYTES }, (error, stdout, stderr) => {
      if (child.signalCode === null && typeof error?.code === 'string') {
        const hint = `Install openssl, or use a PEM file instead. ${AS_PEM}`;
        reject(unreadable(file, 'a PKCS12 truststore requires the program openssl, which was not found', hint, error));
      } else {
        resolve({ exitCode: child.exitCode, stdout, stderr });
      }
    });
    // Ignore the error if openssl exits without reading its input. The exit code reports the cause.
    child.stdin?.on('error', () => {}).end(`${password}\n`);
  });
}
