/** Profiles: named sets of additional processes and configuration properties of a cluster. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { HIGH_AVAILABILITY } from './high-availability.mjs';
import { KERBEROS } from './kerberos.mjs';
import { stateFolder } from './layout.mjs';
import { TLS } from './tls.mjs';

/**
 * @typedef {object} Place the cluster for which a profile acts
 * @property {string} state its state folder
 * @property {import('./layout.mjs').Ports} ports of Hadoop's daemons and of the profile's processes
 */

/**
 * @typedef {object} AdditionalProcess a process beside Hadoop's daemons, started before them
 * @property {string} name
 * @property {Readonly<Record<string, number>>} ports by use, before the cluster's offset is added
 * @property {(place: Place) => { command: string, args: readonly string[], env: Readonly<Record<string, string>> }} command
 */

/**
 * @typedef {object} AdditionalDaemon a Java process of the cluster beside the daemons of the plain profile
 * @property {string} main
 * @property {string} heap
 * @property {Readonly<Record<string, number>>} ports by use, before the cluster's offset is added
 * @property {(place: Place) => readonly string[]} [args]
 * @property {'first' | 'with Hadoop' | 'last'} start first: it listens before the other daemons start; last: after `beforeLast`
 */

/**
 * @typedef {object} Profile
 * @property {readonly AdditionalProcess[]} processes
 * @property {Readonly<Record<string, AdditionalDaemon>>} [daemons]
 * @property {{ main: string, configuration: string, args: readonly string[], exitCodes: readonly number[] }} [beforeLast] a Java program
 *   that runs to its end before the last daemons start, with the configuration of a daemon
 * @property {(place: Place, log?: (line: string) => void) => Promise<void>} prepare creates what the processes need before they start
 * @property {(place: Place) => Promise<void>} begin acts after the processes listen, before Hadoop's daemons start
 * @property {(place: Place) => import('./configuration.mjs').SiteProperties} properties override those of the plain cluster
 * @property {(place: Place, daemon: string) => import('./configuration.mjs').SiteProperties} [ownProperties] of one daemon
 * @property {'https'} [scheme] of the daemons' web servers; http without it
 * @property {(place: Place) => readonly string[]} javaFlags of each daemon
 * @property {(place: Place, user?: string) => Readonly<Record<string, string>>} [environment] what clients need beside HADOOP_CONF_DIR;
 *   without it, HADOOP_USER_NAME if there is a user
 * @property {(place: Place, url: string, init?: RequestInit) => Promise<Response>} [request] sends a request of the administrator to a
 *   daemon; without it, requests name the administrator
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

/** @type {Readonly<Record<string, Profile>>} */
export const PROFILES = { plain: PLAIN, privacy: PRIVACY, ha: HIGH_AVAILABILITY, kerberos: KERBEROS, tls: TLS };

/**
 * @param {string} name
 * @returns {Profile}
 */
export function profileNamed(name) {
  const found = PROFILES[name];
  if (found === undefined) {
    throw new Error(`there is no profile \`${name}\` (known: ${Object.keys(PROFILES).join(', ')})`);
  }
  return found;
}

/** The file in the state folder with the name of the profile with which the cluster was started. @param {string} state */
export function profileFile(state) {
  return path.join(state, 'profile');
}

/**
 * The profile of a cluster that exists; null when none exists at this offset.
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
