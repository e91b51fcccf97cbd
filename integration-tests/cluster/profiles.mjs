/** Profiles: named sets of additional processes and configuration properties of a cluster. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { CGROUPS } from './cgroups.mjs';
import { CONTAINER_EXECUTOR } from './container-executor.mjs';
import { FEDERATION } from './federation.mjs';
import { HIGH_AVAILABILITY } from './high-availability.mjs';
import { KERBEROS } from './kerberos.mjs';
import { KEY_SERVER } from './key-server.mjs';
import { stateFolder } from './layout.mjs';
import { TLS } from './tls.mjs';
import { WEB_PROXY } from './web-proxy.mjs';

/**
 * @typedef {object} Place a cluster that uses a profile
 * @property {string} state the cluster's state folder
 * @property {import('./layout.mjs').Ports} ports of Hadoop's daemons and of the profile's processes
 * @property {Profile} profile
 */

/**
 * @typedef {object} AdditionalProcess a process that the cluster starts before Hadoop's daemons
 * @property {string} name
 * @property {Readonly<Record<string, number>>} ports by use, before the cluster's offset is added
 * @property {(place: Place) => { command: string, args: readonly string[], env: Readonly<Record<string, string>> }} command
 */

/**
 * @typedef {object} AdditionalDaemon a Java process that the plain profile does not have
 * @property {string} main
 * @property {string} heap
 * @property {Readonly<Record<string, number>>} ports by use, before the cluster's offset is added
 * @property {(place: Place) => readonly string[]} [args]
 * @property {(place: Place) => readonly string[]} [flags] Java options
 * @property {'gateways'} [jars] the jars of gateways-pom.xml; Hadoop's by default
 * @property {'first' | 'with Hadoop' | 'last'} start first: it listens before the other daemons start; last: after `beforeLast`
 */

/**
 * @typedef {object} Profile
 * @property {readonly AdditionalProcess[]} processes
 * @property {Readonly<Record<string, AdditionalDaemon>>} [daemons]
 * @property {{ main: string, configuration: string, args: readonly string[], exitCodes: readonly number[] }} [beforeLast] a Java program
 *   that runs to its end before the last daemons start, with the configuration of a daemon
 * @property {(place: Place, log?: (line: string) => void) => Promise<void>} prepare creates what the processes need before they start
 * @property {(place: Place, formatted: string) => Promise<void>} [copyFormatted] creates the folders of further NameNodes from an empty one
 * @property {(place: Place) => Promise<void>} begin called when the processes listen, before Hadoop's daemons start
 * @property {(place: Place) => import('./configuration.mjs').SiteProperties} properties properties that override the plain profile's
 * @property {(place: Place, daemon: string) => import('./configuration.mjs').SiteProperties} [ownProperties] properties of one daemon
 * @property {'https'} [scheme] scheme of the daemons' web servers; http by default
 * @property {(place: Place, hadoop: string) => readonly string[]} javaFlags Java options of all daemons, for a version of Hadoop
 * @property {(place: Place, user?: string) => Readonly<Record<string, string>>} [environment] environment variables of clients, in addition
 *   to HADOOP_CONF_DIR; by default, HADOOP_USER_NAME if there is a user
 * @property {(place: Place, url: string, init: RequestInit) => Promise<Response>} [send] sends an HTTP request to a daemon; by default,
 *   `fetch`
 * @property {(place: Place) => string} [authorityFile] file with the certificate authority (PEM) of the daemons
 * @property {(place: Place, url: string, init: RequestInit) => Promise<Response>} [request] sends an HTTP request to a daemon as the
 *   administrator; by default, the URL contains the administrator's name
 */

/** @type {Profile} */
const PLAIN = {
  processes: [],
  prepare: async () => {},
  begin: async () => {},
  properties: () => ({}),
  javaFlags: () => [],
};

/** The profile `privacy`: Hadoop RPC is encrypted. @type {Profile} */
const PRIVACY = { ...PLAIN, properties: () => ({ core: { 'hadoop.rpc.protection': 'privacy' } }) };

/** The profile `acls`: only bob may submit to the queue `gpu`. Applications have ACLs in every profile. @type {Profile} */
const ACLS = {
  ...PLAIN,
  properties: () => ({
    scheduler: {
      // A queue inherits the permissions of its parent. A space stands for no user.
      'yarn.scheduler.capacity.root.acl_submit_applications': ' ',
      'yarn.scheduler.capacity.root.default.acl_submit_applications': '*',
      'yarn.scheduler.capacity.root.gpu.acl_submit_applications': 'bob',
    },
  }),
};

/** @type {Readonly<Record<string, Profile>>} */
export const PROFILES = {
  plain: PLAIN,
  privacy: PRIVACY,
  acls: ACLS,
  ha: HIGH_AVAILABILITY,
  federation: FEDERATION,
  kerberos: KERBEROS,
  kms: KEY_SERVER,
  tls: TLS,
  proxy: WEB_PROXY,
  'container-executor': CONTAINER_EXECUTOR,
  cgroups: CGROUPS,
};

/**
 * Returns the profile with this name. A name such as `kerberos+tls` combines profiles.
 * @param {string} name
 * @returns {Profile}
 */
export function profileNamed(name) {
  return name.split('+').map(singleProfile).reduce(combined);
}

/** @param {string} name */
export function isProfileName(name) {
  return name.split('+').every((each) => each in PROFILES);
}

/**
 * @param {string} name
 * @returns {Profile}
 */
function singleProfile(name) {
  const found = PROFILES[name];
  if (found === undefined) {
    throw new Error(`there is no profile \`${name}\` (known: ${Object.keys(PROFILES).join(', ')})`);
  }
  return found;
}

/**
 * @param {Profile} first
 * @param {Profile} second its properties and functions override those of `first`
 * @returns {Profile}
 */
function combined(first, second) {
  return {
    ...first,
    ...second,
    processes: [...first.processes, ...second.processes],
    daemons: { ...first.daemons, ...second.daemons },
    prepare: async (place, log) => {
      await first.prepare(place, log);
      await second.prepare(place, log);
    },
    begin: async (place) => {
      await first.begin(place);
      await second.begin(place);
    },
    properties: (place) => merged(first.properties(place), second.properties(place)),
    ownProperties: (place, daemon) => merged(first.ownProperties?.(place, daemon) ?? {}, second.ownProperties?.(place, daemon) ?? {}),
    javaFlags: (place, hadoop) => [...first.javaFlags(place, hadoop), ...second.javaFlags(place, hadoop)],
  };
}

/**
 * @param {import('./configuration.mjs').SiteProperties} one
 * @param {import('./configuration.mjs').SiteProperties} other
 * @returns {import('./configuration.mjs').SiteProperties}
 */
function merged(one, other) {
  const files = /** @type {(keyof import('./configuration.mjs').SiteProperties)[]} */ (Object.keys({ ...one, ...other }));
  return Object.fromEntries(files.map((file) => [file, { ...one[file], ...other[file] }]));
}

/** @param {string} state */
export function profileFile(state) {
  return path.join(state, 'profile');
}

/**
 * Returns the profile of an existing cluster. Returns null if no cluster exists at this offset.
 * @param {number} offset
 */
export function existingProfile(offset) {
  const state = stateFolder(offset);
  const file = profileFile(state);
  if (existsSync(file)) {
    return readFileSync(file, 'utf8').trim();
  }
  return existsSync(path.join(state, 'data')) ? 'plain' : null;
}
