/** The profile `kms`: the profile `kerberos`, with a key server (KMS) for encryption zones. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { toXml } from './configuration.mjs';
import { KERBEROS } from './kerberos.mjs';

/** @typedef {import('./profiles.mjs').Place} Place */

const NAME = 'keyserver';
/** Every user may use every key. */
const KEY_ACLS = Object.fromEntries(['MANAGEMENT', 'GENERATE_EEK', 'DECRYPT_EEK', 'READ'].map((use) => [`default.key.acl.${use}`, '*']));

/** @type {import('./profiles.mjs').Profile} */
export const KEY_SERVER = {
  ...KERBEROS,
  daemons: {
    [NAME]: {
      main: 'org.apache.hadoop.crypto.key.kms.server.KMSWebServer',
      heap: '96m',
      ports: { http: 9600 },
      start: 'with Hadoop',
    },
  },
  prepare: async (place, log) => {
    await KERBEROS.prepare(place, log);
    const folder = folderOf(place);
    await mkdir(folder, { recursive: true });
    const files = { 'kms-site.xml': toXml(keyServerSite(place)), 'kms-acls.xml': toXml(KEY_ACLS) };
    await Promise.all(Object.entries(files).map(([name, text]) => writeFile(path.join(folder, name), text)));
  },
  // The key server does not start without these properties.
  javaFlags: (place, hadoop) => [
    ...KERBEROS.javaFlags(place, hadoop),
    '-Dlog4j.configuration=log4j.properties',
    `-Dkms.config.dir=${folderOf(place)}`,
  ],
  properties: (place) => {
    const { core, ...others } = KERBEROS.properties(place);
    return { ...others, core: { ...core, 'hadoop.security.key.provider.path': keyProviderOf(place) } };
  },
};

/** The folder with the key server's own configuration. @param {Place} place */
function folderOf({ state }) {
  return path.join(state, 'conf', NAME);
}

/** The URI of the key server in Hadoop's configuration. @param {Place} place */
export function keyProviderOf({ ports }) {
  return `kms://http@localhost:${ports[NAME]?.http}/kms`;
}

/** @param {Place} place @returns {import('./configuration.mjs').Properties} */
function keyServerSite(place) {
  const { core = {} } = KERBEROS.properties(place);
  const sameAs = (/** @type {string} */ key) => core[key] ?? null;
  return {
    'hadoop.kms.http.host': '127.0.0.1',
    'hadoop.kms.http.port': place.ports[NAME]?.http ?? null,
    'hadoop.kms.key.provider.uri': `jceks://file@${path.join(place.state, 'data', 'keys.jceks')}`,
    'hadoop.kms.authentication.type': 'kerberos',
    'hadoop.kms.authentication.kerberos.principal': sameAs('hadoop.http.authentication.kerberos.principal'),
    'hadoop.kms.authentication.kerberos.keytab': sameAs('hadoop.http.authentication.kerberos.keytab'),
    'hadoop.kms.authentication.kerberos.name.rules': sameAs('hadoop.security.auth_to_local'),
    // Lets the ResourceManager request tokens for users.
    'hadoop.kms.proxyuser.yarn.users': '*',
    'hadoop.kms.proxyuser.yarn.hosts': '*',
  };
}
