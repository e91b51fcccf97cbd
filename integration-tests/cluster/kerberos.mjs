/** The profile `kerberos`: a key distribution center on the loopback interface, and a cluster that requires Kerberos everywhere. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ADMINISTRATOR } from './configuration.mjs';
import { ensureNativeLibrary, nativeLibraryFolder } from './native-library.mjs';

/** @typedef {import('./profiles.mjs').Place} Place */

const REALM = 'EXAMPLE.TEST';
const DAEMONS = ['nn', 'dn', 'rm', 'nm', 'HTTP'];
/** Users with a keytab, including HDFS's superuser. */
export const USERS = [...new Set([ADMINISTRATOR, 'alice', 'bob'])];
/** Debian installs the server programs in this folder, which a user's PATH may not contain. */
const PATH = `${process.env.PATH}:/usr/sbin`;
const COMMAND_LIMIT_MS = 60_000;
const REQUEST_LIMIT_MS = 10_000;

/** @type {import('./profiles.mjs').Profile} */
export const KERBEROS = {
  processes: [
    {
      name: 'kdc',
      ports: { kerberos: 8888 },
      command: (place) => ({ command: 'krb5kdc', args: ['-n'], env: { ...kerberosEnvironment(place), PATH } }),
    },
  ],
  prepare,
  begin: async (place) => {
    for (const user of USERS) {
      await run(place, 'kinit', ['-k', '-t', keytabOf(place.state, user), '-c', ticketCacheOf(place.state, user), user]);
    }
  },
  properties,
  javaFlags: ({ state }) => [
    // Hadoop 2.10 and 3.1 read the default realm from a class that Java 17 does not export.
    '--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED',
    `-Djava.security.krb5.conf=${path.join(folderOf(state), 'krb5.conf')}`,
    `-Djava.library.path=${nativeLibraryFolder()}`,
  ],
  // NodeManagers here run every container as the NodeManager's user. A secure NodeManager neither shows nor aggregates logs that belong to
  // a user other than the job's.
  environment: ({ state }, user = ADMINISTRATOR) => clientEnvironment(state, user),
  request,
};

/**
 * Returns the environment of a client with the user's tickets.
 * @param {string} state
 * @param {string} user
 */
export function clientEnvironment(state, user) {
  return { KRB5_CONFIG: path.join(folderOf(state), 'krb5.conf'), KRB5CCNAME: ticketCacheOf(state, user) };
}

/** @param {string} state @param {string} principal */
export function keytabOf(state, principal) {
  return path.join(folderOf(state), `${principal.split('/')[0]}.keytab`);
}

/** @param {string} state @param {string} user */
function ticketCacheOf(state, user) {
  return `FILE:${path.join(folderOf(state), `${user}.tickets`)}`;
}

/** @param {string} state */
function folderOf(state) {
  return path.join(state, 'kerberos');
}

/** @param {Place} place */
function kerberosEnvironment({ state }) {
  const folder = folderOf(state);
  return { KRB5_CONFIG: path.join(folder, 'krb5.conf'), KRB5_KDC_PROFILE: path.join(folder, 'kdc.conf') };
}

/**
 * Creates the realm: its database, the principals and their keytabs. An existing realm is kept.
 * @param {Place} place
 * @param {(line: string) => void} [log]
 */
async function prepare(place, log) {
  await ensureNativeLibrary(log);
  const folder = folderOf(place.state);
  if (existsSync(folder)) {
    return;
  }
  // The final rename marks the realm as complete. Until then, the commands use paths in the temporary folder.
  const state = path.join(place.state, 'kerberos.new');
  await rm(state, { recursive: true, force: true });
  const unfinished = folderOf(state);
  // Other users must be able to read krb5.conf in this folder. The commands restrict the files that contain keys to their owner.
  await mkdir(unfinished, { recursive: true, mode: 0o711 });
  const port = place.ports.kdc?.kerberos;
  await writeFile(path.join(unfinished, 'krb5.conf'), krb5Conf(port));
  await writeFile(path.join(unfinished, 'kdc.conf'), kdcConf(port, unfinished));
  await writeFile(path.join(unfinished, 'http-secret'), randomBytes(32).toString('base64'), { mode: 0o600 });
  const at = { ...place, state };
  await run(at, 'kdb5_util', ['create', '-s', '-r', REALM, '-P', randomBytes(16).toString('hex')]);
  const principals = [...DAEMONS.map((name) => `${name}/localhost`), ...USERS];
  const lines = principals.flatMap((name) => [`addprinc -randkey ${name}`, `ktadd -k ${keytabOf(state, name)} ${name}`]);
  await run(at, 'kadmin.local', [], `${lines.join('\n')}\n`);
  await writeFile(path.join(unfinished, 'kdc.conf'), kdcConf(port, folder));
  await rename(unfinished, folder);
  await rm(state, { recursive: true, force: true });
}

/** @param {number | undefined} port */
function krb5Conf(port) {
  return `[libdefaults]
 default_realm = ${REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 udp_preference_limit = 1
[realms]
 ${REALM} = {
  kdc = 127.0.0.1:${port}
 }
[domain_realm]
 localhost = ${REALM}
`;
}

/** @param {number | undefined} port @param {string} folder */
function kdcConf(port, folder) {
  return `[kdcdefaults]
 kdc_listen = 127.0.0.1:${port}
 kdc_tcp_listen = 127.0.0.1:${port}
[realms]
 ${REALM} = {
  database_name = ${folder}/principal
  key_stash_file = ${folder}/stash
  acl_file = ${folder}/acl
  max_life = 24h
 }
`;
}

/** @param {Place} place */
function properties({ state }) {
  const file = (/** @type {string} */ name) => path.join(folderOf(state), name);
  const web = `HTTP/localhost@${REALM}`;
  const rule = (/** @type {string} */ service, /** @type {string} */ user) => `RULE:[2:$1@$0](${service}@${REALM})s/.*/${user}/`;
  return {
    core: {
      'hadoop.security.authentication': 'kerberos',
      'hadoop.security.authorization': true,
      // HDFS daemons run as HDFS's superuser. YARN daemons run as a user without permissions on HDFS.
      'hadoop.security.auth_to_local': [
        rule('nn', ADMINISTRATOR),
        rule('dn', ADMINISTRATOR),
        rule('rm', 'yarn'),
        rule('nm', 'yarn'),
        'DEFAULT',
      ].join(' '),
      'hadoop.http.filter.initializers': 'org.apache.hadoop.security.AuthenticationFilterInitializer',
      'hadoop.http.authentication.type': 'kerberos',
      'hadoop.http.authentication.simple.anonymous.allowed': false,
      'hadoop.http.authentication.signature.secret.file': file('http-secret'),
      'hadoop.http.authentication.kerberos.principal': web,
      'hadoop.http.authentication.kerberos.keytab': file('HTTP.keytab'),
    },
    hdfs: {
      'dfs.block.access.token.enable': true,
      'dfs.namenode.kerberos.principal': `nn/_HOST@${REALM}`,
      'dfs.namenode.keytab.file': file('nn.keytab'),
      'dfs.namenode.kerberos.internal.spnego.principal': web,
      'dfs.datanode.kerberos.principal': `dn/_HOST@${REALM}`,
      'dfs.datanode.keytab.file': file('dn.keytab'),
      'dfs.web.authentication.kerberos.principal': web,
      'dfs.web.authentication.kerberos.keytab': file('HTTP.keytab'),
      // Without this property, a DataNode requires privileged ports.
      'ignore.secure.ports.for.testing': true,
    },
    yarn: {
      // With the LinuxContainerExecutor, a separate process copies the files of containers.
      'yarn.nodemanager.container-localizer.java.opts': `-Xmx256m -Djava.security.krb5.conf=${file('krb5.conf')}`,
      'yarn.resourcemanager.principal': `rm/_HOST@${REALM}`,
      'yarn.resourcemanager.keytab': file('rm.keytab'),
      // NodeManagers would replace _HOST with this machine's name, which differs from the name in their addresses.
      'yarn.nodemanager.principal': `nm/localhost@${REALM}`,
      'yarn.nodemanager.keytab': file('nm.keytab'),
      'yarn.resourcemanager.webapp.spnego-principal': web,
      'yarn.resourcemanager.webapp.spnego-keytab-file': file('HTTP.keytab'),
      'yarn.nodemanager.webapp.spnego-principal': web,
      'yarn.nodemanager.webapp.spnego-keytab-file': file('HTTP.keytab'),
    },
  };
}

/** The administrator's authentication cookies, by cluster and daemon. @type {Map<string, string>} */
const cookies = new Map();

/**
 * @param {Place} place
 * @param {string} url
 * @param {RequestInit} init
 * @returns {Promise<Response>}
 */
async function request(place, url, init) {
  const { send: transport = (_, target, options) => fetch(target, options) } = place.profile;
  // A redirect to a DataNode already contains the user's delegation token.
  if (new URL(url).searchParams.has('delegation')) {
    return transport(place, url, init);
  }
  const key = `${place.state} ${new URL(url).host}`;
  const send = async () => {
    const headers = new Headers(init.headers);
    headers.set('cookie', cookies.get(key) ?? (await signIn(place, url, key)));
    return transport(place, url, { ...init, headers });
  };
  const answer = await send();
  if (answer.status !== 401) {
    return answer;
  }
  await answer.arrayBuffer();
  cookies.delete(key);
  return send();
}

/** @param {Place} place @param {string} url @param {string} key */
async function signIn(place, url, key) {
  const limit = String(REQUEST_LIMIT_MS / 1000);
  const { origin, pathname } = new URL(url);
  // WebHDFS signs cookies with its own key, so the sign-in sends a read-only request to WebHDFS itself.
  const probe = pathname.startsWith('/webhdfs') ? `${origin}/webhdfs/v1/?op=GETFILESTATUS` : url;
  const authority = place.profile.authorityFile === undefined ? [] : ['--cacert', place.profile.authorityFile(place)];
  const args = ['-sS', '-o', '/dev/null', '-D', '-', '-m', limit, ...authority, '--negotiate', '-u', ':', probe];
  const head = await run(place, 'curl', args, undefined, clientEnvironment(place.state, ADMINISTRATOR));
  const cookie = [...head.matchAll(/^set-cookie:\s*(hadoop\.auth=[^;\r\n]+)/gim)].at(-1)?.[1];
  if (cookie === undefined) {
    throw new Error(`${origin} did not accept the administrator's ticket: ${head.split('\n')[0]}`);
  }
  cookies.set(key, cookie);
  return cookie;
}

/**
 * Runs a Kerberos command and returns its output.
 * @param {Place} place
 * @param {string} command
 * @param {string[]} args
 * @param {string} [input]
 * @param {Readonly<Record<string, string>>} [env]
 * @returns {Promise<string>}
 */
function run(place, command, args, input = '', env = {}) {
  return new Promise((resolve, reject) => {
    const options = { env: { ...process.env, LC_ALL: 'C', ...kerberosEnvironment(place), ...env, PATH }, timeout: COMMAND_LIMIT_MS };
    const child = execFile(command, args, options, (error, stdout, stderr) => {
      if (error === null) {
        resolve(stdout);
      } else if (error.code === 'ENOENT') {
        reject(new Error(`\`${command}\` was not found (Debian: apt-get install krb5-kdc krb5-admin-server krb5-user curl)`));
      } else {
        reject(new Error(`${command} failed: ${stderr.trim() || stdout.trim() || error.message}`));
      }
    });
    // If the command exits without reading its input, its exit status shows the cause.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}
