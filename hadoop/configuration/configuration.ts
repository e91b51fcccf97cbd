import { homedir, tmpdir, userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { isFolder } from '../../platform/files/make-folders.ts';
import { readIfExists } from '../../platform/files/read-if-exists.ts';
import { ifCode } from '../../platform/if-code.ts';
import { withoutEnd } from '../../platform/text/without-end.ts';
import { QOPS, type Qop } from '../rpc/digest-md5.ts';
import type { Endpoint } from '../rpc/ipc.ts';
import { readAuthorities } from './authorities.ts';
import { parseWithIncludes, type XmlInclude, type XmlProperty } from './hadoop-xml.ts';
import { hostAndPort } from './host-and-port.ts';

/** The deprecated names of the properties that tony-ts reads, with their current names. Hadoop accepts both names in its files. */
const CURRENT: Readonly<Record<string, string>> = {
  'dfs.encryption.key.provider.uri': 'hadoop.security.key.provider.path',
  'dfs.federation.nameservices': 'dfs.nameservices',
  'dfs.http.address': 'dfs.namenode.http-address',
  'dfs.https.address': 'dfs.namenode.https-address',
  'fs.default.name': 'fs.defaultFS',
};

/** Returns a property's current name. */
export function currentKey(key: string): string {
  return Object.hasOwn(CURRENT, key) ? (CURRENT[key] ?? key) : key;
}

/** Returns properties with their current names. */
function currentEntries(properties: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(properties).map(([key, value]) => [currentKey(key), value]);
}

/** Maximum nesting depth of included files. */
const MAXIMUM_DEPTH = 8;

/**
 * Reads a configuration file and the files that it includes.
 *
 * @returns null if the file does not exist
 * @throws TonyError HADOOP_CONF_INVALID
 */
export async function readHadoopXml(file: string, depth = 0): Promise<XmlProperty[] | null> {
  const text = await readIfExists(file).catch((error: unknown) => {
    throw new TonyError('HADOOP_CONF_INVALID', `Cannot read ${file}: ${fileErrorOf(error)}`, { cause: error });
  });
  if (text === null) {
    return null;
  }
  const properties: XmlProperty[] = [];
  for (const part of parseWithIncludes(text, file)) {
    properties.push(...('include' in part ? await included(part, file, depth) : [part]));
  }
  return properties;
}

async function included({ include, optional, line }: XmlInclude, file: string, depth: number): Promise<XmlProperty[]> {
  const fail = (problem: string): never => {
    throw new TonyError('HADOOP_CONF_INVALID', `${file}:${line}: ${problem}`);
  };
  const isUrl = /^[a-z][a-z0-9+.-]+:/i.test(include);
  if (isUrl && !/^file:\/(\/\/)?[^/]/.test(include)) {
    return fail(`includes ${include}: only local files can be included`);
  }
  if (depth === MAXIMUM_DEPTH) {
    return fail(`includes ${include}: includes are nested more than ${MAXIMUM_DEPTH} levels deep`);
  }
  const path = isUrl ? fileURLToPath(include) : resolve(dirname(file), include);
  return (await readHadoopXml(path, depth + 1)) ?? (optional ? [] : fail(`includes ${path}, which does not exist`));
}

type Environment = Readonly<Record<string, string | undefined>>;

const PROTECTIONS: Readonly<Record<string, Qop>> = { authentication: 'auth', integrity: 'auth-int', privacy: 'auth-conf' };

/** The configuration files in Hadoop's load order. A later file overrides earlier ones, except for properties marked `<final>`. */
const FILES = ['core-site.xml', 'hdfs-site.xml', 'yarn-site.xml', 'resource-types.xml'];

/** Hadoop 3.4's defaults (*-default.xml) for the keys that tony-ts uses. */
const DEFAULTS: Readonly<Record<string, string>> = {
  'dfs.http.policy': 'HTTP_ONLY',
  'fs.defaultFS': 'file:///',
  'hadoop.rpc.protection': 'authentication',
  'hadoop.security.authentication': 'simple',
  'yarn.am.liveness-monitor.expiry-interval-ms': '900000',
  'yarn.http.policy': 'HTTP_ONLY',
  'yarn.log-aggregation-enable': 'false',
  'yarn.nodemanager.remote-app-log-dir': '/tmp/logs',
  'yarn.nodemanager.remote-app-log-dir-suffix': 'logs',
  'yarn.resourcemanager.am.max-attempts': '2',
  'yarn.resourcemanager.application.max-tag.length': '100',
  'yarn.resourcemanager.application.max-tags': '10',
  'yarn.resourcemanager.connect.max-wait.ms': '900000',
  'yarn.resourcemanager.connect.retry-interval.ms': '30000',
  'yarn.resourcemanager.ha.enabled': 'false',
  'yarn.resourcemanager.hostname': '0.0.0.0',
  'yarn.resourcemanager.rm.container-allocation.expiry-interval-ms': '600000',
  'yarn.resource-types': '',
  'yarn.scheduler.maximum-allocation-mb': '8192',
  'yarn.scheduler.maximum-allocation-vcores': '4',
  'yarn.scheduler.minimum-allocation-mb': '1024',
  'yarn.scheduler.minimum-allocation-vcores': '1',
};

/**
 * The properties copied into job.json. The ApplicationMaster, the executors and the user's programs need them to connect to the cluster.
 */
const FROZEN = [
  /^(fs\.defaultFS|tony\.tls\.authorities|tony\.hdfs\.http)$/,
  /^tony\.storage\.gateway(\.|$)/,
  /^hadoop\.(rpc\.protection|security\.authentication)$/,
  /^ipc\.(client|maximum)\./,
  /^(dfs\.(nameservices|http\.policy)|mapreduce\.job\.hdfs-servers)$/,
  /^dfs\.ha\.namenodes\./,
  /^dfs\.namenode\.(rpc|http|https)-address(\.|$)/,
  /^yarn\.(acl\.enable|admin\.acl|http\.policy|resource-types|web-proxy\.address)$/,
  /^yarn\.resource-types\./,
  /^yarn\.(am|nm)\.liveness-monitor\.expiry-interval-ms$/,
  /^yarn\.log-aggregation/,
  /^yarn\.nodemanager\.remote-app-log-dir/,
  /^yarn\.resourcemanager\.(hostname|address|scheduler\.address|webapp\.(https\.)?address|cluster-id|ha\.(enabled|rm-ids))(\.|$)/,
  /^yarn\.resourcemanager\.(am\.max-attempts|connect\.|rm\.container-allocation\.)/,
  /^yarn\.scheduler\.(minimum|maximum)-allocation-/,
];

/** viewfs:// mount table properties. Their keys contain file system paths, in which SENSITIVE may match a word. */
const MOUNTS = /^fs\.viewfs\.mounttable\./;

/** The key provider for encryption zones. The property's name contains `key`, but the value is a kms:// URI and not a secret. */
const KEY_PROVIDER = 'hadoop.security.key.provider.path';

/** Matches the keys of secret properties. These are never copied into job.json, even if FROZEN matches them. */
const SENSITIVE = /password|passwd|secret|credential|keytab|private|access[._-]?key|(^|[._-])(token|key)s?([._-]|$)/i;

/** Maximum number of variable substitutions per value, as in Hadoop's own client. */
const SUBSTITUTION_LIMIT = 20;
const VARIABLE = /\$\{([^${}\s]+)\}/;

export class HadoopConfiguration {
  readonly #properties: ReadonlyMap<string, string>;
  readonly #environment: Environment;

  private constructor(properties: ReadonlyMap<string, string>, environment: Environment) {
    this.#properties = properties;
    this.#environment = environment;
  }

  /**
   * Reads the site files in a Hadoop configuration folder. If the cluster offers HTTPS, also reads the trusted certificate authorities.
   * @param authorities returns additional authorities in PEM format
   * @param additional properties to add to those in the files
   * @throws TonyError HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, TRUST_STORE_UNREADABLE
   */
  static async fromDirectory(
    folder: string,
    environment: Environment = process.env,
    authorities: () => Promise<string> = async () => '',
    additional: Readonly<Record<string, string>> = {},
  ): Promise<HadoopConfiguration> {
    const read = (files: readonly string[]) => HadoopConfiguration.#read(folder, files, environment);
    const configuration = (await read(FILES))?.with(additional) ?? null;
    if (configuration === null) {
      const what = (await isFolder(folder)) ? `contains none of ${FILES.slice(0, 3).join(', ')}` : 'is not an existing folder';
      throw new TonyError('HADOOP_CONF_NOT_FOUND', `HADOOP_CONF_DIR names ${folder}, which ${what}.`);
    }
    return configuration.offersHttps
      ? configuration.with(await readAuthorities(configuration, await authorities(), read, environment))
      : configuration;
  }

  static async #read(folder: string, files: readonly string[], environment: Environment): Promise<HadoopConfiguration | null> {
    const properties = new Map<string, string>();
    const finals = new Set<string>();
    let found = 0;
    for (const name of files) {
      const read = await readHadoopXml(join(folder, name));
      if (read === null) {
        continue;
      }
      found += 1;
      for (const property of read) {
        const key = currentKey(property.name);
        if (finals.has(key)) {
          continue;
        }
        properties.set(key, property.value);
        if (property.final) {
          finals.add(key);
        }
      }
    }
    return found === 0 ? null : new HadoopConfiguration(properties, environment);
  }

  /** Reads the site files in HADOOP_CONF_DIR. If HADOOP_CONF_DIR is not set, reads those in $HADOOP_HOME/etc/hadoop. */
  static async fromEnvironment(
    environment: Environment = process.env,
    authorities?: () => Promise<string>,
    additional?: Readonly<Record<string, string>>,
  ): Promise<HadoopConfiguration> {
    if (environment.HADOOP_CONF_DIR) {
      return HadoopConfiguration.fromDirectory(environment.HADOOP_CONF_DIR, environment, authorities, additional);
    }
    if (environment.HADOOP_HOME) {
      const folder = join(environment.HADOOP_HOME, 'etc', 'hadoop');
      if (await isFolder(folder)) {
        return HadoopConfiguration.fromDirectory(folder, environment, authorities, additional);
      }
      throw new TonyError(
        'HADOOP_CONF_NOT_FOUND',
        `HADOOP_CONF_DIR is not set, and HADOOP_HOME names ${environment.HADOOP_HOME}, which has no etc/hadoop.`,
      );
    }
    throw new TonyError('HADOOP_CONF_NOT_FOUND', 'HADOOP_CONF_DIR is not set, so no Hadoop cluster is configured.');
  }

  /** Like `fromEnvironment`, but returns null if the environment does not specify a configuration. */
  static async ifConfigured(environment: Environment = process.env): Promise<HadoopConfiguration | null> {
    return HadoopConfiguration.fromEnvironment(environment).catch(ifCode('HADOOP_CONF_NOT_FOUND', null));
  }

  /** Creates a configuration from plain properties. Those of `freeze()` need no environment: their variables are substituted. */
  static fromProperties(properties: Readonly<Record<string, string>>, environment: Environment = {}): HadoopConfiguration {
    return new HadoopConfiguration(new Map(currentEntries(properties)), environment);
  }

  /** Returns a copy with additional or changed properties. */
  with(properties: Readonly<Record<string, string>>): HadoopConfiguration {
    return new HadoopConfiguration(new Map([...this.#properties, ...currentEntries(properties)]), this.#environment);
  }

  /** Returns the value after variable substitution, or Hadoop's default if no file sets the key. */
  get(key: string): string | undefined {
    const raw = this.#raw(key);
    return raw === undefined ? undefined : this.#substitute(key, raw);
  }

  number(key: string): number {
    const value = this.get(key) ?? '';
    const number = /^-?\d+$/.test(value) ? Number(value) : Number.NaN;
    if (!Number.isSafeInteger(number)) {
      throw new TonyError('HADOOP_CONF_INVALID', `${key} is "${value}", but must be a whole number.`);
    }
    return number;
  }

  flag(key: string): boolean {
    return this.get(key)?.toLowerCase() === 'true';
  }

  list(key: string): string[] {
    return (this.get(key) ?? '')
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '');
  }

  /**
   * Returns the properties whose keys start with the prefix. The keys in the result do not include the prefix, and variables in the values
   * are substituted.
   */
  withPrefix(prefix: string): ReadonlyMap<string, string> {
    const keys = [...this.#properties.keys()].filter((key) => key.startsWith(prefix));
    return new Map(keys.map((key) => [key.slice(prefix.length), this.get(key) ?? '']));
  }

  /** Returns the properties to store in job.json. Secrets are left out, and variables are substituted. */
  freeze(): Record<string, string> {
    const isFrozen = (key: string): boolean => MOUNTS.test(key) || (FROZEN.some((pattern) => pattern.test(key)) && !SENSITIVE.test(key));
    const keys = [...this.#properties.keys()].filter(isFrozen).sort();
    const provider = this.keyProvider.startsWith('kms://') ? [KEY_PROVIDER] : [];
    return Object.fromEntries([...keys, ...provider].map((key) => [key, this.get(key) ?? '']));
  }

  /** Returns true if YARN or HDFS serves HTTPS, or if a file system or its gateway is reached over HTTPS. */
  get offersHttps(): boolean {
    const addresses = [
      this.defaultFs,
      ...this.withPrefix('fs.viewfs.mounttable.').values(),
      ...this.withPrefix('tony.storage.gateway').values(),
    ];
    return (
      this.get('yarn.http.policy') === 'HTTPS_ONLY' ||
      this.get('dfs.http.policy') !== 'HTTP_ONLY' ||
      addresses.some((address) => /^(https|swebhdfs):/i.test(address))
    );
  }

  /** Returns true if the cluster requires Kerberos. */
  get secure(): boolean {
    return this.get('hadoop.security.authentication')?.toLowerCase() !== 'simple';
  }

  /**
   * Returns the weakest RPC protection that hadoop.rpc.protection allows.
   * @throws TonyError HADOOP_CONF_INVALID
   */
  get minimumQop(): Qop {
    const allowed = this.list('hadoop.rpc.protection').map((name) => {
      const qop = PROTECTIONS[name.toLowerCase()];
      if (qop === undefined) {
        throw new TonyError('HADOOP_CONF_INVALID', `hadoop.rpc.protection has the unknown value ${name}.`);
      }
      return qop;
    });
    return QOPS.find((qop) => allowed.includes(qop)) ?? 'auth';
  }

  /** The key provider URI for encryption zones, or an empty string if the cluster has none. */
  get keyProvider(): string {
    return this.get(KEY_PROVIDER) ?? '';
  }

  /** The default file system, without a trailing slash. For `viewfs:///`, this is the default mount table, whose name can be configured. */
  get defaultFs(): string {
    const text = withoutEnd(this.get('fs.defaultFS') ?? '', '/');
    return text === 'viewfs:' ? `viewfs://${this.get('fs.viewfs.mounttable.default.name.key') ?? 'default'}` : text;
  }

  /** Returns the base URLs of the ResourceManager web servers, in HA list order. */
  get resourceManagers(): readonly string[] {
    const https = this.get('yarn.http.policy') === 'HTTPS_ONLY';
    const key = https ? 'yarn.resourcemanager.webapp.https.address' : 'yarn.resourcemanager.webapp.address';
    const scheme = https ? 'https' : 'http';
    return this.#resourceManagerAddresses(key, https ? 8090 : 8088).map(({ host, port }) => `${scheme}://${host}:${port}`);
  }

  /**
   * Returns the base URL of YARN's web proxy if it is a separate process, and null otherwise. The proxy runs in the ResourceManager if
   * yarn.web-proxy.address is not set or equals the ResourceManager's own web address.
   */
  get separateWebProxy(): string | null {
    const address = this.get('yarn.web-proxy.address');
    if (!address) {
      return null;
    }
    const { host, port } = hostAndPort(address, 9099, 'yarn.web-proxy.address');
    const url = `${this.get('yarn.http.policy') === 'HTTPS_ONLY' ? 'https' : 'http'}://${host}:${port}`;
    return this.resourceManagers.includes(url) ? null : url;
  }

  /** Returns the base URLs of YARN's web proxies, which forward requests to ApplicationMasters. */
  get webProxies(): readonly string[] {
    const separate = this.separateWebProxy;
    return separate === null ? this.resourceManagers : [separate];
  }

  /** Returns the RPC addresses to which ApplicationMasters connect, in HA list order. */
  get schedulers(): readonly Endpoint[] {
    return this.#resourceManagerAddresses('yarn.resourcemanager.scheduler.address', 8030);
  }

  /** Returns the RPC addresses to which clients connect, in HA list order. */
  get resourceManagerEndpoints(): readonly Endpoint[] {
    return this.#resourceManagerAddresses('yarn.resourcemanager.address', 8032);
  }

  /** Returns the resource types other than memory-mb and vcores, e.g. `yarn.io/gpu`. */
  get resourceTypes(): readonly string[] {
    return this.list('yarn.resource-types').filter((name) => name !== 'memory-mb' && name !== 'vcores');
  }

  /** True if several YARN clusters form one federation, so that no ResourceManager knows all resources. */
  get isFederated(): boolean {
    return this.get('yarn.federation.enabled')?.trim() === 'true';
  }

  /** The memory increment in MiB. YARN rounds memory requests up to a multiple of this value. */
  get minimumMemoryMb(): number {
    return this.number('yarn.scheduler.minimum-allocation-mb');
  }

  #resourceManagerAddresses(key: string, defaultPort: number): Endpoint[] {
    const resolve = (suffix: string): Endpoint => {
      const address = this.get(`${key}${suffix}`);
      if (address !== undefined) {
        return hostAndPort(address, defaultPort, `${key}${suffix}`);
      }
      const host = this.get(`yarn.resourcemanager.hostname${suffix}`);
      if (host === undefined) {
        throw new TonyError('HADOOP_CONF_INVALID', `Neither ${key}${suffix} nor yarn.resourcemanager.hostname${suffix} is set.`);
      }
      return { host, port: defaultPort };
    };
    if (!this.flag('yarn.resourcemanager.ha.enabled')) {
      return [resolve('')];
    }
    const ids = this.list('yarn.resourcemanager.ha.rm-ids');
    if (ids.length === 0) {
      throw new TonyError('HADOOP_CONF_INVALID', 'yarn.resourcemanager.ha.enabled is true, but yarn.resourcemanager.ha.rm-ids is empty.');
    }
    return ids.map((id) => resolve(`.${id}`));
  }

  #raw(key: string): string | undefined {
    const name = currentKey(key);
    return this.#properties.get(name) ?? DEFAULTS[name];
  }

  /** Substitutes variables, starting with the innermost. Leaves an unknown variable unchanged, as Hadoop does. */
  #substitute(key: string, raw: string): string {
    let value = raw;
    const seen = new Set<string>();
    for (let depth = 0; depth < SUBSTITUTION_LIMIT; depth += 1) {
      const match = VARIABLE.exec(value);
      const variable = match?.[1];
      if (match === null || variable === undefined) {
        return value;
      }
      const replacement = this.#variable(variable);
      if (replacement === undefined || seen.has(match[0])) {
        return value;
      }
      // To prevent endless loops, substitute a variable only once if its value contains variables.
      if (replacement.includes('${')) {
        seen.add(match[0]);
      }
      value = value.slice(0, match.index) + replacement + value.slice(match.index + match[0].length);
    }
    throw new TonyError('HADOOP_CONF_INVALID', `${key} needs more than ${SUBSTITUTION_LIMIT} substitutions: "${raw}".`);
  }

  #variable(name: string): string | undefined {
    if (name.startsWith('env.')) {
      const [variable = '', ...rest] = name.slice('env.'.length).split('-');
      const value = this.#environment[withoutEnd(variable, ':')];
      const isMissing = variable.endsWith(':') ? !value : value === undefined;
      return isMissing && rest.length > 0 ? rest.join('-') : value;
    }
    const system = systemProperty(name, this.#environment);
    return system ?? this.#raw(name);
  }
}

/** Returns the user name to send to a cluster without Kerberos. `clusterUser` returns the user name for any cluster. */
export function hadoopUser(environment: Environment = process.env): string {
  return environment.HADOOP_USER_NAME || osUser(environment);
}

function osUser(environment: Environment): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run under a user ID that has no entry in the password file.
    return environment.USER || environment.LOGNAME || 'unknown';
  }
}

function systemProperty(name: string, environment: Environment): string | undefined {
  switch (name) {
    case 'user.name':
      return osUser(environment);
    case 'user.home':
      return homedir();
    case 'java.io.tmpdir':
      return tmpdir();
    case 'hadoop.home.dir':
      return environment.HADOOP_HOME;
    default:
      return undefined;
  }
}
