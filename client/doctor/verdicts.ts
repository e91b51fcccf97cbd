import { isIP } from 'node:net';
import { connect, type DetailedPeerCertificate, type TLSSocket } from 'node:tls';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import { LEAST_LEASE_MS, MASTER_EXPIRY, MOST_LEASE_MS, masterLossMs, masterReplacementMs } from '../../conf/values/lease.ts';
import { counted } from '../../conf/values/quantities.ts';
import { formatDuration } from '../../conf/values/units.ts';
import { offersBoth, trustOf } from '../../hadoop/configuration/authorities.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { gatewayOf } from '../../hadoop/configuration/file-systems/gateway.ts';
import { fileSystemsOf, locationOf } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { type FileSystemName, fileSystemUri, nameNodesOf } from '../../hadoop/configuration/file-systems/name-nodes.ts';
import { type HttpAnswer, HttpClient } from '../../hadoop/http/http-client.ts';
import { type Login, sendAs } from '../../hadoop/security/login.ts';
import type { ServerTrust } from '../../hadoop/tls/server-trust.ts';
import { tlsFailure } from '../../hadoop/tls/tls-failure.ts';
import type { TonyError } from '../../platform/errors.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import { clusterSiteUri } from '../../storage/cluster-site.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { joinUri, parentUri } from '../../storage/uri.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { MASTER_ATTEMPTS } from '../job/bundles.ts';
import { isUserName } from '../records/history-place.ts';
import { type CheckResult, fail, ok, warn } from './diagnosis.ts';

const OTHERS_WRITE = 0o002;
/** In a sticky folder, users can rename and remove only their own entries. */
const STICKY = 0o1000;

/**
 * Checks whether the keys of the site file take effect where the file is, and whether only the admin can change the file on HDFS, from
 * which ApplicationMasters read the quotas.
 * @param defaultFs the cluster's default file system, on HDFS
 */
export async function siteVerdict(site: SiteConfig, storage: Pick<Storage, 'stat'>, defaultFs: string): Promise<CheckResult> {
  const shared = clusterSiteUri(defaultFs);
  const entry = await storage.stat(shared);
  const exposed = entry === null ? null : await exposedPlace(storage, entry);
  if (exposed !== null) {
    return warn(
      `every user can change ${shared}, because ${exposed.uri === shared ? 'it' : exposed.uri} has mode ${exposed.permission.toString(8)}`,
      `Run hdfs dfs -chmod o-w ${shellWord(exposed.uri)} as its owner. Until then, users can lift their own quotas.`,
    );
  }
  if (site.from === null) {
    return ok('no site file: the defaults apply');
  }
  if (site.unknownKeys.length > 0) {
    return fail(
      `tony-ts ignores keys that it does not know: ${site.unknownKeys.join('; ')}`,
      'Correct these keys. If a newer version of tony-ts reads them, install that version on this machine.',
    );
  }
  return site.from === shared ? sharedFileVerdict(site, shared) : localFileVerdict(site, site.from, entry === null ? shared : null);
}

/** Returns the file, or a folder above it, if its mode lets every user change or replace the file. Otherwise, returns null. */
async function exposedPlace(storage: Pick<Storage, 'stat'>, file: Entry): Promise<Entry | null> {
  if ((file.permission & OTHERS_WRITE) !== 0) {
    return file;
  }
  for (let uri = parentUri(file.uri), below = file.uri; uri !== below; below = uri, uri = parentUri(uri)) {
    const folder = await storage.stat(uri);
    if (folder !== null && (folder.permission & (OTHERS_WRITE | STICKY)) === OTHERS_WRITE) {
      return folder;
    }
  }
  return null;
}

function sharedFileVerdict({ tls, storage, kerberos }: SiteConfig, from: string): CheckResult {
  const keys = Object.entries({ 'tls.ca': tls.ca, 'storage.gateway': storage.gateway, kerberos });
  const local = keys.flatMap(([key, value]) => (value === null ? [] : [key])).join(' and ');
  return local === ''
    ? ok(from)
    : warn(`${from}: ${local} has no effect there`, `Put ${local} into the tony-site.yaml in HADOOP_CONF_DIR on the users' machines.`);
}

/** @param missing URI of the file on HDFS if it does not exist */
function localFileVerdict({ quotas, final }: SiteConfig, from: string, missing: string | null): CheckResult {
  const { over: _, ...limits } = quotas;
  const keys = [
    ...(Object.values(limits).some((entries) => Object.keys(entries).length > 0) ? ['quotas'] : []),
    ...(Object.keys(final).length > 0 ? ['final'] : []),
  ];
  return missing === null || keys.length === 0
    ? ok(from)
    : warn(
        `${from}: only clients apply ${keys.join(' and ')}, because ${missing} does not exist`,
        `Copy the file to HDFS, where ApplicationMasters read it: hdfs dfs -put ${shellWord(from)} ${shellWord(missing)}`,
      );
}

const ATTEMPTS = 'yarn.resourcemanager.am.max-attempts';
const AGGREGATION = 'yarn.log-aggregation-enable';
const RETENTION = 'yarn.log-aggregation.retain-seconds';
const ACLS = 'yarn.acl.enable';
const ADMINS = 'yarn.admin.acl';
const PROXY = 'yarn.web-proxy.address';
const PAGES_POLICY = 'yarn.resourcemanager.application-https.policy';
/** With a shorter retention time (ms), logs may disappear before users have read them. */
const SHORT_MS = 86_400_000;

/**
 * Checks the ResourceManager's settings for recovery, log aggregation, access lists, and job pages.
 * @param address base URL of the ResourceManager
 */
export function settingsVerdict(settings: ReadonlyMap<string, string>, address: string): CheckResult {
  const pages = pagesVerdict(settings, address);
  const verdicts = [...[attemptsVerdict, logsVerdict, aclVerdict].map((verdict) => verdict(settings)), ...(pages === null ? [] : [pages])];
  const text = verdicts.map((each) => each.message).join('; ');
  const hints = verdicts.flatMap(({ hint }) => (hint === '' ? [] : [hint]));
  return hints.length === 0 ? ok(text) : warn(text, hints.join(' '));
}

function attemptsVerdict(settings: ReadonlyMap<string, string>): CheckResult {
  const most = Number(settings.get(ATTEMPTS) ?? 2);
  const used = Math.min(MASTER_ATTEMPTS, most);
  const text = `a job gets ${counted(used, 'ApplicationMaster attempt')} (YARN allows at most ${most})`;
  return most > 1 ? ok(text) : warn(text, `Set ${ATTEMPTS} to 2 or more: currently, a job fails when its ApplicationMaster's node fails.`);
}

function logsVerdict(settings: ReadonlyMap<string, string>): CheckResult {
  if (settings.get(AGGREGATION) !== 'true') {
    return warn(
      'logs are not aggregated on HDFS',
      `Set ${AGGREGATION} to true: currently, logs of ended jobs stay on the nodes, where YARN removes them.`,
    );
  }
  // YARN keeps logs forever if the number of seconds is negative.
  const keptMs = 1000 * Number(settings.get(RETENTION) ?? -1);
  if (keptMs < 0) {
    return ok('logs are aggregated on HDFS and never removed');
  }
  const text = `logs are aggregated on HDFS and kept for ${formatDuration(keptMs)}`;
  return keptMs < SHORT_MS
    ? warn(text, `Set ${RETENTION} to ${(7 * SHORT_MS) / 1000} (a week): currently, \`tony-ts logs\` finds no logs of yesterday's jobs.`)
    : ok(text);
}

function aclVerdict(settings: ReadonlyMap<string, string>): CheckResult {
  if (settings.get(ACLS) !== 'true') {
    return warn('access lists are off', `Set ${ACLS} to true: currently, every user can kill all other users' jobs and read their logs.`);
  }
  const admins = (settings.get(ADMINS) ?? '*').trim();
  return admins === '*'
    ? warn(
        'access lists are enforced, but every user is an administrator',
        `Set ${ADMINS} to the administrators of YARN: currently, every user can still kill all other users' jobs and read their logs.`,
      )
    : ok(`access lists are enforced; administrators: ${admins === '' ? 'none' : admins}`);
}

/** Returns null if YARN's proxy can show job pages, or a finding otherwise. */
function pagesVerdict(settings: ReadonlyMap<string, string>, address: string): CheckResult | null {
  const proxy = settings.get(PROXY) ?? '';
  return proxy === '' || settings.get(PAGES_POLICY) !== 'STRICT' || new URL(address).host === proxy
    ? null
    : warn(
        `the proxy ${proxy}, which runs outside the ResourceManager, cannot show the pages of jobs`,
        `Set ${PAGES_POLICY} to LENIENT, or remove ${PROXY}: only the ResourceManager's own proxy can verify the certificates that STRICT requires.`,
      );
}

const TIMEOUT_MS = 5_000;
/** The check warns about certificates that expire within this time (ms). */
const RENEW_BEFORE_MS = 14 * 24 * 60 * 60 * 1000;

type Certificate = { readonly expiresAt: number } | { readonly failure: TonyError } | 'no answer';

/**
 * Checks every ResourceManager's and NameNode's certificate. Other commands do not notice an invalid certificate as long as another server
 * works, but they fail after a failover.
 */
export async function certificatesVerdict(configuration: HadoopConfiguration, now = Date.now()): Promise<CheckResult> {
  if (offersBoth(configuration)) {
    return warn(
      "HDFS offers HTTP and HTTPS, but this client trusts none of the cluster's certificate authorities, so it uses HTTP: data and tokens cross the network in clear text",
      'To use HTTPS, name a readable truststore in the ssl-client.xml of HADOOP_CONF_DIR (ssl.client.truststore.location), or a PEM file as tls.ca in tony-site.yaml.',
    );
  }
  const servers = httpsServers(configuration);
  if (servers.length === 0) {
    return ok('no connection to a ResourceManager or NameNode uses HTTPS');
  }
  const trust = trustOf(configuration);
  const found = await Promise.all(servers.map(async (server) => ({ server, certificate: await certificateOf(new URL(server), trust) })));
  const failures = found.flatMap(({ certificate }) =>
    typeof certificate === 'object' && 'failure' in certificate ? [certificate.failure] : [],
  );
  const [failure] = failures;
  if (failure !== undefined) {
    return warn(`not trusted: ${failures.map(({ message }) => message).join(' ')}`, failure.hint);
  }
  const valid = found.flatMap(({ server, certificate }) =>
    typeof certificate === 'object' && 'expiresAt' in certificate ? [{ server, expiresAt: certificate.expiresAt }] : [],
  );
  const [first] = valid.sort((one, other) => one.expiresAt - other.expiresAt);
  if (first === undefined) {
    return ok(`unknown: none of ${servers.join(', ')} answers`);
  }
  const silent = servers.length - valid.length;
  const text = `${valid.length} trusted${silent === 0 ? '' : `, ${silent} unknown because the server does not answer`}; the certificate of ${new URL(first.server).host} expires first, on ${new Date(first.expiresAt).toISOString().slice(0, 10)}`;
  return first.expiresAt - now < RENEW_BEFORE_MS ? warn(text, 'Ask the cluster admin to renew the certificate.') : ok(text);
}

/** Returns the HTTPS addresses of the ResourceManagers and of the default file system's NameNodes. */
function httpsServers(configuration: HadoopConfiguration): readonly string[] {
  const standard = locationOf(configuration.defaultFs);
  const fileSystems = standard === null ? [] : fileSystemsOf(configuration, standard);
  const storage = fileSystems.flatMap((fileSystem) => {
    const gateway = gatewayOf(configuration, fileSystem);
    return gateway === null ? nameNodesOf(configuration, fileSystem) : [gateway];
  });
  return [...new Set([...configuration.resourceManagers, ...storage])].filter((address) => address.startsWith('https:'));
}

function certificateOf(server: URL, trust: ServerTrust): Promise<Certificate> {
  return new Promise((resolve) => {
    const host = server.hostname.replace(/^\[|\]$/g, '');
    const socket: TLSSocket = connect({
      ...trust.connectionOptions(),
      host,
      port: Number(server.port || 443),
      servername: /^[\d.:]+$/.test(host) ? '' : host,
    });
    const end = (certificate: Certificate): void => {
      socket.destroy();
      resolve(certificate);
    };
    socket.setTimeout(TIMEOUT_MS, () => end('no answer'));
    socket.once('secureConnect', () => {
      const { valid_to } = socket.getPeerCertificate() as Partial<DetailedPeerCertificate>;
      end(valid_to === undefined ? 'no answer' : { expiresAt: Date.parse(valid_to) });
    });
    socket.on('error', (error) => {
      const failure = tlsFailure(error, server);
      end(failure === null ? 'no answer' : { failure });
    });
  });
}

/**
 * Checks whether the job secret is encrypted when it crosses the network. A job's processes use this secret to authenticate each other.
 * Clients send the secret to the ResourceManager over REST, and containers receive the secret over Hadoop RPC.
 */
export function secretsVerdict(configuration: Pick<HadoopConfiguration, 'resourceManagers' | 'minimumQop'>): CheckResult {
  const addresses = configuration.resourceManagers.map((address) => new URL(address));
  if (addresses.every(({ hostname }) => isLoopback(hostname))) {
    return ok('not sent over a network, because the ResourceManager runs on this machine');
  }
  const clear = [
    ...(addresses.some(({ protocol }) => protocol === 'http:') ? ['over HTTP at submission'] : []),
    ...(configuration.minimumQop === 'auth-conf' ? [] : ['over Hadoop RPC when containers start']),
  ];
  if (clear.length === 0) {
    return ok('encrypted by HTTPS and by hadoop.rpc.protection: privacy');
  }
  return warn(
    `the job secret crosses the network in clear text, ${clear.join(' and ')}: anyone who reads the secret can join the job`,
    'On a network that you do not trust, set yarn.http.policy to HTTPS_ONLY and hadoop.rpc.protection to privacy, for daemons and clients.',
  );
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'));
}

/**
 * Reports how long a job runs without an ApplicationMaster when the ApplicationMaster's node is lost, and whether the executors' leases
 * outlast this time. Executors of ranked tasks derive their leases from YARN's expiry intervals, up to a maximum.
 */
export function masterLoss(settings: ReadonlyMap<string, string>): CheckResult {
  const lease = (ms: number): string => formatDuration(1000 * Math.ceil(ms / 1000));
  const replacementMs = masterReplacementMs(settings);
  const leaseMs = Math.min(MOST_LEASE_MS, Math.max(LEAST_LEASE_MS, replacementMs));
  const leases =
    leaseMs === LEAST_LEASE_MS
      ? `programs continue without one for ${lease(leaseMs)}`
      : `ranked programs continue without one for ${lease(leaseMs)}, all others for ${lease(LEAST_LEASE_MS)}`;
  const text = `the ResourceManager replaces an ApplicationMaster on a lost node within ${lease(masterLossMs(settings))}; ${leases}`;
  return replacementMs <= MOST_LEASE_MS
    ? ok(text)
    : warn(
        text,
        `Lower ${MASTER_EXPIRY} to at most 600000. Otherwise, programs exit before a second ApplicationMaster starts, and training resumes from a checkpoint.`,
      );
}

/** If a login expires within this time (ms), the user should renew it. */
const SOON_MS = 30 * 60_000;

/** Reports the user name, the type of login, and the time at which the login expires. */
export async function loginVerdict({ login, user }: HadoopCluster): Promise<CheckResult> {
  const { text, endsAt } = await login.describe();
  if (endsAt === null) {
    return ok(`${user}, ${text}`);
  }
  const leftMs = endsAt - Date.now();
  const whole = `${user}, ${text}, until ${new Date(endsAt).toISOString()}`;
  return leftMs < SOON_MS ? warn(whole, 'Renew it soon: kinit, or kinit -R for a renewable ticket.') : ok(whole);
}

const AT_ONCE = 16;
const MOST_USERS = 1_000;
const MOST_NAMED = 5;

/**
 * Checks whether the users in the site file have home folders on HDFS, where jobs store their files.
 * @param parent URI of the folder that contains the home folders
 */
export async function homesVerdict(storage: Pick<Storage, 'stat'>, parent: string, users: readonly string[]): Promise<CheckResult> {
  const named = users.filter((user) => user !== '*' && isUserName(user)).slice(0, MOST_USERS);
  if (named.length === 0) {
    return ok('the site file lists no users');
  }
  const missing: string[] = [];
  for (let at = 0; at < named.length; at += AT_ONCE) {
    const batch = named.slice(at, at + AT_ONCE);
    const homes = await Promise.all(batch.map((user) => storage.stat(joinUri(parent, user))));
    missing.push(...batch.filter((_, index) => homes[index] === null));
  }
  const [first] = missing;
  if (first === undefined) {
    return ok(
      named.length === 1
        ? `${named[0]}, the only user in quotas.users of the site file, has a home folder`
        : `all ${named.length} users in quotas.users of the site file have home folders`,
    );
  }
  const home = shellWord(joinUri(parent, first));
  return warn(
    `users in quotas.users of the site file without a home folder: ${firstNames(missing, MOST_NAMED)}`,
    `Their jobs cannot create a staging folder. As the HDFS admin, run hdfs dfs -mkdir ${home} && hdfs dfs -chown ${shellWord(first)} ${home}`,
  );
}

/** Permission bits that the owner of a folder needs to create files in it. */
const OWNER_WRITES = 0o300;

/**
 * Checks whether the user can create the staging folder in the home folder.
 * @param identity describes the user
 * @param home URI of the home folder
 * @param entry the home folder, or null if it does not exist
 */
export function homeVerdict(identity: string, user: string, home: string, entry: Entry | null): CheckResult {
  const [folder, name] = [shellWord(home), shellWord(user)];
  if (entry === null) {
    return warn(
      `${identity}; ${home} does not exist`,
      `Ask the cluster admin to create it (hdfs dfs -mkdir ${folder} && hdfs dfs -chown ${name} ${folder}).`,
    );
  }
  if (entry.owner !== user) {
    return warn(
      `${identity}; ${home} belongs to ${entry.owner}`,
      `tony-ts creates its staging folder there. Ask the cluster admin to change the owner (hdfs dfs -chown ${name} ${folder}), or choose another folder with --staging.`,
    );
  }
  if ((entry.permission & OWNER_WRITES) !== OWNER_WRITES) {
    return warn(
      `${identity}; you cannot write to ${home} (mode ${entry.permission.toString(8)})`,
      `tony-ts creates its staging folder there. Run hdfs dfs -chmod u+rwx ${folder}.`,
    );
  }
  return ok(identity);
}

/** Everyone may create a folder of their own, and the sticky bit protects the folders of others. */
const MODE = 0o1777;
const OTHERS_CREATE = 0o003;

/**
 * Checks whether all users can write histories to the shared folder, and whether they cannot remove the histories of others.
 * @param folder URI of the folder that `history.dir` specifies, or null if histories are in home folders
 * @param entry the folder, or null if it does not exist
 * @param folders the entries in the folder. Each one should belong to the user whose name it has
 */
export function historyVerdict(folder: string | null, entry: Entry | null, folders: readonly Entry[] = []): CheckResult {
  if (folder === null) {
    return ok("in each user's home folder");
  }
  const path = shellWord(folder);
  const chmod = `hdfs dfs -chmod ${MODE.toString(8)} ${path}`;
  if (entry === null) {
    return fail(`${folder} does not exist`, `Run hdfs dfs -mkdir -p ${path} && ${chmod} as the HDFS admin, or correct history.dir.`);
  }
  const mode = entry.permission.toString(8);
  const step = `Run ${chmod} as ${entry.owner || 'the HDFS admin'}.`;
  if ((entry.permission & OTHERS_CREATE) !== OTHERS_CREATE) {
    return warn(`${folder} has mode ${mode}, so users without a folder in it cannot submit jobs`, step);
  }
  if ((entry.permission & STICKY) === 0) {
    return warn(`${folder} has mode ${mode}, so each user can remove the histories of others`, step);
  }
  const foreign = folders.filter(({ name, owner }) => owner !== name);
  const [first] = foreign;
  if (first === undefined) {
    return ok(folder);
  }
  const named = firstNames(
    foreign.map(({ name, owner }) => `${name} (of ${owner})`),
    MOST_NAMED,
  );
  const user = shellWord(joinUri(folder, first.name));
  return warn(
    `${folder} contains folders that do not belong to the user of this name: ${named}. These users' histories are stored in their home folders`,
    `As the HDFS admin, remove such a folder, and create it for the user: hdfs dfs -mkdir ${user} && hdfs dfs -chown ${shellWord(first.name)} ${user}`,
  );
}

/** Maximum number of file systems to describe. A mount table may contain many more. */
const MAXIMUM = 6;

/**
 * Describes whether this client reaches HDFS through the NameNodes or through a gateway. For a mount table, describes each file system.
 * Returns '' if the default file system is not HDFS.
 */
export function hdfsAccessOf(configuration: HadoopConfiguration): string {
  const standard = locationOf(configuration.defaultFs);
  if (standard === null) {
    return '';
  }
  const all = new Map(fileSystemsOf(configuration, standard).map((fileSystem) => [fileSystemUri(fileSystem), fileSystem]));
  const parts = [...all].map(([uri, fileSystem]) => `${uri} ${accessTo(configuration, fileSystem)}`);
  const omitted = parts.length - MAXIMUM;
  return [...parts.slice(0, MAXIMUM), ...(omitted > 0 ? [`and ${omitted} more`] : [])].join('; ');
}

function accessTo(configuration: HadoopConfiguration, fileSystem: FileSystemName): string {
  const gateway = gatewayOf(configuration, fileSystem);
  return gateway === null ? `by WebHDFS at ${nameNodesOf(configuration, fileSystem).join(', ')}` : `through the gateway ${gateway}`;
}

/**
 * Clock skew (ms) above which the check fails. Larger skews make timestamps in logs misleading. Jobs run even with larger skews, because
 * each executor measures its lease with its own clock.
 */
const SKEW_MS = 5_000;
const CLOCK_TIMEOUT_MS = 5_000;
const CLOCK_BYTES = 64 * 1024;

export async function clockVerdict({ configuration, login }: HadoopCluster): Promise<CheckResult> {
  const http = new HttpClient({ trust: trustOf(configuration) });
  const skews = await Promise.all(configuration.resourceManagers.map((address) => skewOf(address, login, http)));
  http.close();
  const [worst] = skews.filter((skew) => skew !== null).sort((a, b) => Math.abs(b.ms) - Math.abs(a.ms));
  if (worst === undefined) {
    return warn('the ResourceManager does not report its time', "Compare the nodes' clocks with this machine's clock.");
  }
  const text = `the clock of ${worst.address} is ${formatDuration(Math.abs(worst.ms))} ${worst.ms < 0 ? 'behind' : 'ahead'}`;
  return Math.abs(worst.ms) > SKEW_MS
    ? warn(text, 'Run a time service (chrony, ntpd) on all machines. Otherwise, times in logs and histories are wrong.')
    : ok(`all clocks agree within ${formatDuration(SKEW_MS)}`);
}

/**
 * Estimates a ResourceManager's clock skew (ms) from the `Date` header of a response, which has a resolution of one second. Returns null if
 * the request fails or the response has no such header.
 */
async function skewOf(address: string, login: Login, http: HttpClient): Promise<{ readonly address: string; readonly ms: number } | null> {
  try {
    let before = 0;
    const ask = (url: URL, headers: Readonly<Record<string, string>>): Promise<HttpAnswer> => {
      before = Date.now();
      return http.fetch({ method: 'GET', url, headers, idleTimeoutMs: CLOCK_TIMEOUT_MS }, { maximumBytes: CLOCK_BYTES });
    };
    const response = await sendAs(login, new URL(`${address}/ws/v1/cluster/info`), ask, ({ status }) => status);
    // Hadoop sends the header twice. Use the first one.
    const said = Date.parse(/^[^,]*,[^,]*/.exec(response.headers.date ?? '')?.[0] ?? '');
    const here = (before + Date.now()) / 2;
    return Number.isNaN(said) ? null : { address, ms: Math.round(said + 500 - here) };
  } catch {
    return null;
  }
}
