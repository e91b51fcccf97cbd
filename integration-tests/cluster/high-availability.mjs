/**
 * The profile `ha`: two ResourceManagers and two NameNodes. Each pair fails over automatically through a ZooKeeper server. The NameNodes
 * share their edits through a folder, the smallest set-up that HDFS accepts.
 */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** @typedef {import('./profiles.mjs').Place} Place */

/** Host name in the file system's URI. */
const NAMESERVICE = 'box';
const NAME_NODES = /** @type {const} */ ({ nn1: 'namenode', nn2: 'namenode-standby' });
const RESOURCE_MANAGERS = /** @type {const} */ ({ rm1: 'resourcemanager', rm2: 'resourcemanager-standby' });
const FAILOVER_CONTROLLER = 'org.apache.hadoop.hdfs.tools.DFSZKFailoverController';
/**
 * Time in ms after a daemon's last heartbeat until its standby takes over. A healthy daemon on a loaded machine sends heartbeats more
 * often.
 */
const SESSION_MS = 6_000;

/** @type {import('./profiles.mjs').Profile} */
export const HIGH_AVAILABILITY = {
  processes: [],
  daemons: {
    zookeeper: {
      main: 'org.apache.zookeeper.server.ZooKeeperServerMain',
      heap: '96m',
      ports: { client: 2181 },
      args: ({ state }) => [zooKeeperFile(state)],
      start: 'first',
    },
    'namenode-standby': {
      main: 'org.apache.hadoop.hdfs.server.namenode.NameNode',
      heap: '192m',
      ports: { rpc: 8120, http: 9970 },
      start: 'with Hadoop',
    },
    'resourcemanager-standby': {
      main: 'org.apache.hadoop.yarn.server.resourcemanager.ResourceManager',
      heap: '256m',
      ports: { scheduler: 8130, tracker: 8131, client: 8132, admin: 8133, http: 8188 },
      start: 'with Hadoop',
    },
    'zkfc-namenode': { main: FAILOVER_CONTROLLER, heap: '96m', ports: { rpc: 8019 }, start: 'last' },
    'zkfc-namenode-standby': { main: FAILOVER_CONTROLLER, heap: '96m', ports: { rpc: 8119 }, start: 'last' },
  },
  prepare,
  copyFormatted,
  begin: async () => {},
  // Creates the parent node of the NameNodes' lock. Exit code 2 means that the node exists.
  beforeLast: { main: FAILOVER_CONTROLLER, configuration: 'namenode', args: ['-formatZK', '-nonInteractive'], exitCodes: [0, 2] },
  properties,
  ownProperties,
  javaFlags: () => [],
};

/** @param {string} state */
function zooKeeperFile(state) {
  return path.join(state, 'conf', 'zookeeper.cfg');
}

/** @param {Place} place */
async function prepare({ state, ports }) {
  const lines = [
    'tickTime=1000',
    `dataDir=${state}/data/zookeeper`,
    'clientPortAddress=127.0.0.1',
    `clientPort=${ports.zookeeper?.client}`,
    'admin.enableServer=false',
  ];
  await mkdir(path.dirname(zooKeeperFile(state)), { recursive: true });
  await writeFile(zooKeeperFile(state), `${lines.join('\n')}\n`);
}

/**
 * Copies the active NameNode's image to the standby NameNode, and its cluster ID to the shared edits.
 * @param {Place} place
 * @param {string} formatted
 */
async function copyFormatted({ state }, formatted) {
  const data = path.join(state, 'data');
  await cp(formatted, path.join(data, 'namenode-standby'), { recursive: true });
  await mkdir(path.join(data, 'shared-edits', 'current'), { recursive: true });
  await cp(path.join(formatted, 'current', 'VERSION'), path.join(data, 'shared-edits', 'current', 'VERSION'));
}

/** @param {Place} place @returns {import('./configuration.mjs').SiteProperties} */
function properties({ state, ports }) {
  const quorum = `localhost:${ports.zookeeper?.client}`;
  /** @type {import('./configuration.mjs').Properties} */
  const hdfs = {
    'dfs.nameservices': NAMESERVICE,
    [`dfs.ha.namenodes.${NAMESERVICE}`]: Object.keys(NAME_NODES).join(','),
    [`dfs.client.failover.proxy.provider.${NAMESERVICE}`]: 'org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider',
    'dfs.namenode.rpc-address': null,
    'dfs.namenode.http-address': null,
    'dfs.namenode.shared.edits.dir': `file://${state}/data/shared-edits`,
    'dfs.ha.automatic-failover.enabled': true,
    // Fencing is a no-op, because the failed NameNode's process has already been killed.
    'dfs.ha.fencing.methods': 'shell(/bin/true)',
    'dfs.ha.tail-edits.period': 1,
  };
  for (const [id, name] of Object.entries(NAME_NODES)) {
    hdfs[`dfs.namenode.rpc-address.${NAMESERVICE}.${id}`] = `localhost:${ports[name]?.rpc}`;
    // The profile `tls` uses the same port for HTTPS.
    for (const scheme of ['http', 'https']) {
      hdfs[`dfs.namenode.${scheme}-address.${NAMESERVICE}.${id}`] = `localhost:${ports[name]?.http}`;
    }
  }
  /** @type {import('./configuration.mjs').Properties} */
  const yarn = {
    'yarn.resourcemanager.ha.enabled': true,
    'yarn.resourcemanager.ha.rm-ids': Object.keys(RESOURCE_MANAGERS).join(','),
    'yarn.resourcemanager.cluster-id': NAMESERVICE,
    'yarn.resourcemanager.ha.automatic-failover.enabled': true,
    'yarn.resourcemanager.ha.automatic-failover.embedded': true,
    'yarn.resourcemanager.store.class': 'org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore',
    'yarn.resourcemanager.zk-timeout-ms': SESSION_MS,
    // Older versions use the first property name, newer versions the second.
    'yarn.resourcemanager.zk-address': quorum,
    'hadoop.zk.address': quorum,
    'hadoop.zk.timeout-ms': SESSION_MS,
    'yarn.resourcemanager.hostname': null,
  };
  for (const [id, name] of Object.entries(RESOURCE_MANAGERS)) {
    yarn[`yarn.resourcemanager.hostname.${id}`] = 'localhost';
    const uses = { address: 'client', 'scheduler.address': 'scheduler', 'resource-tracker.address': 'tracker', 'admin.address': 'admin' };
    for (const [key, use] of Object.entries({ ...uses, 'webapp.address': 'http', 'webapp.https.address': 'http' })) {
      yarn[`yarn.resourcemanager.${key}`] = null;
      yarn[`yarn.resourcemanager.${key}.${id}`] = `localhost:${/** @type {Record<string, number>} */ (ports[name])[use]}`;
    }
  }
  const core = {
    'fs.defaultFS': `hdfs://${NAMESERVICE}`,
    'ha.zookeeper.quorum': quorum,
    'ha.zookeeper.session-timeout.ms': SESSION_MS,
  };
  return { core, hdfs, yarn };
}

/**
 * Sets the ID of each daemon of a pair. Both daemons run on the same host, so they cannot derive their IDs from the host name.
 * @param {Place} place
 * @param {string} name
 * @returns {import('./configuration.mjs').SiteProperties}
 */
function ownProperties({ state, ports }, name) {
  const resourceManager = Object.entries(RESOURCE_MANAGERS).find(([, each]) => each === name)?.[0];
  if (resourceManager !== undefined) {
    return { yarn: { 'yarn.resourcemanager.ha.id': resourceManager } };
  }
  const nameNode = Object.entries(NAME_NODES).find(([, each]) => each === name.replace(/^zkfc-/, ''));
  if (nameNode === undefined) {
    return {};
  }
  const [id, daemon] = nameNode;
  return {
    hdfs: {
      'dfs.ha.namenode.id': id,
      'dfs.namenode.name.dir': `file://${state}/data/${daemon}`,
      'dfs.ha.zkfc.port': ports[`zkfc-${daemon}`]?.rpc ?? null,
    },
  };
}
