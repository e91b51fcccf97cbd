import { createDecipheriv, hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { fileErrorOf, messageOf } from '../../platform/errors.ts';
import { ifMissing } from '../../platform/files/if-missing.ts';
import { BigEndianReader } from './big-endian-reader.ts';
import { CredentialStoreError } from './credential-store-error.ts';
import { keyStoreContent, WrongPassword } from './java-key-store.ts';

/*
 * Key stores use this part of Java's object serialization (java.io.ObjectStreamConstants): objects with default fields, byte arrays,
 * strings and back references. Integers are big-endian.
 *
 *   stream:    u16 0xACED, u16 5, content
 *   content:   0x70 null | 0x71 u32 handle | 0x73 class, field values | 0x74 text | 0x75 class, u32 length, bytes
 *   class:     0x70 null | 0x71 u32 handle | 0x72 text name, u64 version, u8 flags, u16 number of fields, fields, 0x78, superclass
 *   field:     u8 type, text name; for the types `[` and `L` also the content of a string, the type's name
 *   values:    from the topmost superclass to the class itself: the value of each field
 *   text:      u16 length, UTF-8
 *
 * Classes, objects, arrays and strings receive consecutive handles in the order in which they appear, starting at 0x7E0000.
 */
const JAVA_MAGIC = 0xaced0005;
const [NULL, REFERENCE, CLASS, OBJECT, STRING, ARRAY, END] = [0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x78];
const FIRST_HANDLE = 0x7e0000;
/** The flags for a class that does not customise its serialization. */
const SERIALIZABLE = 0x02;
const PRIMITIVE_BYTES: Readonly<Record<string, number>> = { B: 1, C: 2, D: 8, F: 4, I: 4, J: 8, S: 2, Z: 1 };
const MAXIMUM_DEPTH = 16;

interface JavaObject {
  readonly className: string;
  readonly fields: ReadonlyMap<string, JavaValue>;
}

type JavaValue = JavaObject | Buffer | string | null;

interface JavaClass {
  readonly name: string;
  readonly fields: readonly { readonly type: string; readonly name: string }[];
  readonly parent: JavaClass | null;
}

/**
 * Reads a serialized object without the values of its primitive fields.
 * @throws RangeError for a damaged stream, and for content that key stores never contain
 */
function readJavaObject(from: BigEndianReader): JavaObject {
  if (from.u32() !== JAVA_MAGIC) {
    throw new RangeError('it contains no serialized Java object');
  }
  const object = new ObjectReader(from).content(0);
  if (object === null || typeof object === 'string' || Buffer.isBuffer(object)) {
    throw new RangeError('a serialized Java value is not an object');
  }
  return object;
}

class ObjectReader {
  readonly #from: BigEndianReader;
  readonly #handles: (JavaClass | JavaValue)[] = [];

  constructor(from: BigEndianReader) {
    this.#from = from;
  }

  content(depth: number): JavaValue {
    if (depth > MAXIMUM_DEPTH) {
      throw new RangeError('a serialized Java object is nested too deeply');
    }
    const type = this.#from.u8();
    switch (type) {
      case NULL:
        return null;
      case REFERENCE: {
        const found = this.#referenced();
        if (found !== null && typeof found === 'object' && 'parent' in found) {
          throw new RangeError('a serialized Java value refers to a class');
        }
        return found;
      }
      case STRING: {
        const text = this.#from.text();
        this.#handles.push(text);
        return text;
      }
      case ARRAY:
        return this.#byteArray(depth);
      case OBJECT:
        return this.#object(depth);
      default:
        throw new RangeError(`a serialized Java object contains the unknown type ${type}`);
    }
  }

  #byteArray(depth: number): Buffer {
    if (this.#class(depth)?.name !== '[B') {
      throw new RangeError('a serialized Java array does not contain bytes');
    }
    const handle = this.#handles.push(null) - 1;
    const content = this.#from.bytes();
    this.#handles[handle] = content;
    return content;
  }

  #object(depth: number): JavaObject {
    const type = this.#class(depth);
    if (type === null) {
      throw new RangeError('a serialized Java object has no class');
    }
    const fields = new Map<string, JavaValue>();
    const object = { className: type.name, fields };
    this.#handles.push(object);
    const lineage: JavaClass[] = [];
    for (let each: JavaClass | null = type; each !== null; each = each.parent) {
      lineage.unshift(each);
    }
    for (const field of lineage.flatMap((each) => each.fields)) {
      const primitive = PRIMITIVE_BYTES[field.type];
      if (primitive === undefined) {
        fields.set(field.name, this.content(depth + 1));
      } else {
        this.#from.skip(primitive);
      }
    }
    return object;
  }

  #class(depth: number): JavaClass | null {
    if (depth > MAXIMUM_DEPTH) {
      throw new RangeError('a serialized Java class is nested too deeply');
    }
    const type = this.#from.u8();
    if (type === NULL) {
      return null;
    }
    if (type === REFERENCE) {
      const found = this.#referenced();
      if (found === null || typeof found !== 'object' || !('parent' in found)) {
        throw new RangeError('a serialized Java object refers to no class');
      }
      return found;
    }
    if (type !== CLASS) {
      throw new RangeError(`a serialized Java object has the unknown class type ${type}`);
    }
    const name = this.#from.text();
    this.#from.skip(8);
    const handle = this.#handles.push(null) - 1;
    if (this.#from.u8() !== SERIALIZABLE) {
      throw new RangeError(`the Java class ${name} writes its own format`);
    }
    const fields: { type: string; name: string }[] = [];
    for (let left = this.#from.u16(); left > 0; left -= 1) {
      const field = { type: String.fromCharCode(this.#from.u8()), name: this.#from.text() };
      if (!(field.type in PRIMITIVE_BYTES)) {
        this.content(depth + 1);
      }
      fields.push(field);
    }
    if (this.#from.u8() !== END) {
      throw new RangeError(`the Java class ${name} has annotations`);
    }
    const found: JavaClass = { name, fields, parent: this.#class(depth + 1) };
    this.#handles[handle] = found;
    return found;
  }

  #referenced(): JavaClass | JavaValue {
    const found = this.#handles[this.#from.u32() - FIRST_HANDLE];
    if (found === undefined) {
      throw new RangeError('a serialized Java object contains an unknown reference');
    }
    return found;
  }
}

/*
 * Java's key store format JCEKS (com.sun.crypto.provider.JceKeyStore), in which Hadoop's credential providers store passwords. It is the
 * format JKS (see java-key-store.ts) with the magic number 0xCECECECE and one more kind of entry:
 *
 *   entry:  u32 tag 3 (secret key), text alias, u64 ms since the epoch, a serialized javax.crypto.SealedObject
 *
 * The sealed object contains a serialized javax.crypto.spec.SecretKeySpec, whose key is the password in UTF-8. It is encrypted with
 * PBEWithMD5AndTripleDES: for each half of the salt, a chain of MD5 over (previous digest, password) yields 16 bytes. The 32 bytes are a
 * Triple DES key (24 bytes) and an initialization vector (8 bytes).
 */
const STORE_MAGIC = 0xcececece;
const [PRIVATE_KEY, TRUSTED_CERTIFICATE, SECRET_KEY] = [1, 2, 3];
const ALGORITHM = 'PBEWithMD5AndTripleDES';
/** The maximum iteration count, which protects against crafted files. Java uses 200,000. */
const MAXIMUM_ITERATIONS = 5_000_000;
const SALT_BYTES = 8;

/** A store's credentials, keyed by alias. Each value is a function that decrypts one credential. */
type CredentialStore = ReadonlyMap<string, () => string>;

/**
 * Reads a JCEKS key store.
 * @throws RangeError for a damaged file, WrongPassword
 */
export function readCredentialStore(bytes: Buffer, password: string): CredentialStore {
  const reader = new BigEndianReader(keyStoreContent(bytes, null));
  const [magic, version] = [reader.u32(), reader.u32()];
  if (magic !== STORE_MAGIC || version !== 2) {
    throw new RangeError('it is not a JCEKS key store');
  }
  keyStoreContent(bytes, password);
  const found = new Map<string, () => string>();
  for (let left = reader.u32(); left > 0; left -= 1) {
    const tag = reader.u32();
    const alias = reader.text();
    reader.skip(8);
    if (tag === SECRET_KEY) {
      const sealed = readJavaObject(reader);
      found.set(alias, () => unseal(sealed, password));
    } else if (tag === PRIVATE_KEY || tag === TRUSTED_CERTIFICATE) {
      skipCertificates(reader, tag);
    } else {
      throw new RangeError(`an entry has the unknown tag ${tag}`);
    }
  }
  return found;
}

function skipCertificates(reader: BigEndianReader, tag: number): void {
  if (tag === PRIVATE_KEY) {
    reader.bytes();
  }
  for (let left = tag === PRIVATE_KEY ? reader.u32() : 1; left > 0; left -= 1) {
    reader.text();
    reader.bytes();
  }
}

function unseal({ fields }: JavaObject, password: string): string {
  const algorithm = fields.get('sealAlg');
  if (algorithm !== ALGORITHM) {
    throw new RangeError(`a credential is encrypted with ${String(algorithm)}`);
  }
  // Parameters: SEQUENCE { OCTET STRING salt, INTEGER iterations }
  const parameters = new BigEndianReader(new BigEndianReader(bytesOf(fields.get('encodedParams'))).der(0x30));
  const salt = parameters.der(0x04);
  const count = parameters.der(0x02);
  const iterations = count.length <= 6 ? Number(`0x${count.toString('hex')}`) : Number.POSITIVE_INFINITY;
  if (salt.length !== SALT_BYTES || !(iterations >= 1 && iterations <= MAXIMUM_ITERATIONS)) {
    throw new RangeError('the encryption parameters for a credential are out of range');
  }
  const derived = deriveKey(salt, password, iterations);
  const decipher = createDecipheriv('des-ede3-cbc', derived.subarray(0, 24), derived.subarray(24));
  let plain: Buffer;
  try {
    plain = Buffer.concat([decipher.update(bytesOf(fields.get('encryptedContent'))), decipher.final()]);
  } catch {
    throw new WrongPassword();
  }
  const { fields: key } = readJavaObject(new BigEndianReader(plain));
  return bytesOf(key.get('key')).toString('utf8');
}

function deriveKey(salt: Buffer, password: string, iterations: number): Buffer {
  const secret = Buffer.from(password, 'latin1');
  const halves = [Buffer.from(salt.subarray(0, SALT_BYTES / 2)), salt.subarray(SALT_BYTES / 2)] as const;
  if (halves[0].equals(halves[1])) {
    // Reproduces a bug in Java, which should reverse the first half but overwrites bytes before it has moved them.
    const [a = 0, b = 0, , d = 0] = halves[0];
    halves[0].set([d, a, b, d]);
  }
  return Buffer.concat(
    halves.map((half) => {
      let digest: Buffer = half;
      for (let left = iterations; left > 0; left -= 1) {
        digest = hash('md5', Buffer.concat([digest, secret]), 'buffer');
      }
      return digest;
    }),
  );
}

function bytesOf(value: unknown): Buffer {
  if (!Buffer.isBuffer(value)) {
    throw new RangeError('a credential lacks a field');
  }
  return value;
}

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
