/**
 * The state folder and the ports of a local cluster. An offset determines the folder and the ports, so several clusters can run side by
 * side.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Hadoop version of a cluster without an explicit version. */
export const DEFAULT_HADOOP = '3.4.3';
/** Root folder of the repository. The search for package.json is necessary because benchmarks bundle this file into other folders. */
export const ROOT = folderWith('package.json', path.dirname(fileURLToPath(import.meta.url)));
export const CACHE = path.join(ROOT, '.cache');

/**
 * Returns the folder of a Hadoop version with its jars and a formatted name directory. All clusters share this folder.
 * @param {string} hadoop
 */
export function versionFolder(hadoop) {
  return path.join(CACHE, `hadoop-${hadoop}`);
}

/** Ports stay below 32768, where Linux starts its range for outgoing connections. */
export const LARGEST_OFFSET = 20_000;

/** Offset between the ports of a worker's shared cluster and the ports of a test file's own cluster. */
export const OWN_CLUSTER_OFFSET = 500;

/** @typedef {'namenode' | 'datanode' | 'resourcemanager' | 'nodemanager1' | 'nodemanager2'} DaemonName */

/** @type {readonly DaemonName[]} */
export const DAEMONS = ['namenode', 'datanode', 'resourcemanager', 'nodemanager1', 'nodemanager2'];

/** @type {Readonly<Record<string, DaemonName>>} */
const SHORT_NAMES = { nn: 'namenode', dn: 'datanode', rm: 'resourcemanager', nm1: 'nodemanager1', nm2: 'nodemanager2' };

/**
 * @param {string} name
 * @returns {DaemonName | null} null when no daemon has this name
 */
export function daemonNamed(name) {
  return SHORT_NAMES[name] ?? DAEMONS.find((each) => each === name) ?? null;
}

/** Hadoop's default ports. The second NodeManager adds 100 to the ports of the first. */
const PORTS = /** @type {const} */ ({
  namenode: { rpc: 8020, http: 9870 },
  datanode: { data: 9866, http: 9864, ipc: 9867 },
  resourcemanager: { scheduler: 8030, tracker: 8031, client: 8032, admin: 8033, http: 8088 },
  nodemanager1: { localizer: 8040, containers: 8041, http: 8042, collector: 8048 },
  nodemanager2: { localizer: 8140, containers: 8141, http: 8142, collector: 8148 },
});

/** @typedef {{ -readonly [Name in DaemonName]: Record<keyof typeof PORTS[Name], number> } & { [additional: string]: Record<string, number> }} Ports */

/**
 * @param {number} offset
 * @param {readonly { name: string, ports: Readonly<Record<string, number>> }[]} additional processes of the profile
 * @returns {Ports}
 */
export function portsAt(offset, additional) {
  if (!Number.isInteger(offset) || offset < 0 || offset > LARGEST_OFFSET) {
    throw new Error(`the port offset must be a whole number from 0 to ${LARGEST_OFFSET}, not ${offset}`);
  }
  const all = [...Object.entries(PORTS), ...additional.map(({ name, ports }) => /** @type {const} */ ([name, ports]))];
  return /** @type {Ports} */ (
    Object.fromEntries(
      all.map(([daemon, ports]) => [daemon, Object.fromEntries(Object.entries(ports).map(([use, port]) => [use, port + offset]))]),
    )
  );
}

/** @param {number} offset */
export function stateFolder(offset) {
  return path.join(CACHE, 'cluster', String(offset));
}

/**
 * @param {string} name
 * @param {string} from
 * @returns {string}
 */
function folderWith(name, from) {
  return existsSync(path.join(from, name)) ? from : folderWith(name, path.dirname(from));
}
