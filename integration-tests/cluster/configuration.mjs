import { mkdir, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import path from 'node:path';

/** null removes a property. @typedef {Record<string, string | number | boolean | null>} Properties */
/**
 * Overrides by file: core-site.xml, hdfs-site.xml, yarn-site.xml and capacity-scheduler.xml; ssl-client.xml and ssl-server.xml;
 * httpfs-site.xml and hdfs-rbf-site.xml (`router`).
 * @typedef {'core' | 'hdfs' | 'yarn' | 'scheduler' | 'sslClient' | 'sslServer' | 'httpfs' | 'router'} Site
 * @typedef {{ [Name in Site]?: Properties }} SiteProperties
 */

/** Resources that each NodeManager offers. No process reserves the memory, so it may exceed the machine's memory. */
export const NODE = { memoryMb: 8192, vcores: 8, gpus: 4 };
export const QUEUES = ['default', 'gpu'];

/** User that starts the NameNode. HDFS makes this user its superuser, and YARN uses it as administrator. */
export const ADMINISTRATOR = userInfo().username;

/** @param {import('./layout.mjs').Ports} ports */
function coreSite(ports) {
  return {
    'fs.defaultFS': `hdfs://localhost:${ports.namenode.rpc}`,
    'hadoop.security.authentication': 'simple',
    'hadoop.http.staticuser.user': 'dr.who',
    // No user belongs to a group, except the user that runs the history server.
    'hadoop.user.group.static.mapping.overrides': 'historian=historians;alice=research;bob=research,students;carol=students',
    // With these limits, clients detect a stopped daemon within seconds.
    'ipc.client.connect.max.retries': 3,
  };
}

/**
 * @param {import('./layout.mjs').Ports} ports
 * @param {string} state
 */
function hdfsSite({ namenode, datanode }, state) {
  return {
    'dfs.replication': 1,
    'dfs.permissions.enabled': true,
    'dfs.webhdfs.enabled': true,
    'dfs.namenode.name.dir': `file://${state}/data/namenode`,
    'dfs.namenode.rpc-address': `localhost:${namenode.rpc}`,
    'dfs.namenode.http-address': `localhost:${namenode.http}`,
    'dfs.namenode.safemode.extension': 0,
    // By default, a thread looks for deleted blocks every 10 ms.
    'dfs.namenode.block.deletion.unlock.interval.ms': 1000,
    'dfs.namenode.datanode.registration.ip-hostname-check': false,
    'dfs.datanode.data.dir': `file://${state}/data/datanode`,
    'dfs.datanode.address': `localhost:${datanode.data}`,
    'dfs.datanode.http.address': `localhost:${datanode.http}`,
    'dfs.datanode.ipc.address': `localhost:${datanode.ipc}`,
    'dfs.datanode.hostname': 'localhost',
    'dfs.heartbeat.interval': 1,
  };
}

/**
 * @param {import('./layout.mjs').Ports} ports
 * @param {string} state
 */
function yarnSite({ resourcemanager }, state) {
  return {
    // NodeManagers register under the reverse name of 127.0.0.1, so every address uses localhost.
    'yarn.resourcemanager.hostname': 'localhost',
    'yarn.resourcemanager.bind-host': '127.0.0.1',
    'yarn.resourcemanager.address': `localhost:${resourcemanager.client}`,
    'yarn.resourcemanager.scheduler.address': `localhost:${resourcemanager.scheduler}`,
    'yarn.resourcemanager.resource-tracker.address': `localhost:${resourcemanager.tracker}`,
    'yarn.resourcemanager.admin.address': `localhost:${resourcemanager.admin}`,
    'yarn.resourcemanager.webapp.address': `localhost:${resourcemanager.http}`,

    'yarn.resourcemanager.scheduler.class': 'org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler',
    // Starts the preemption monitor. Tests enable preemption by changing capacity-scheduler.xml.
    'yarn.resourcemanager.scheduler.monitor.enable': true,
    'yarn.scheduler.minimum-allocation-mb': 64,
    'yarn.scheduler.maximum-allocation-mb': NODE.memoryMb,
    'yarn.scheduler.minimum-allocation-vcores': 1,
    'yarn.scheduler.maximum-allocation-vcores': NODE.vcores,

    'yarn.acl.enable': true,
    'yarn.admin.acl': ADMINISTRATOR,

    // Applications survive a ResourceManager restart, and containers survive a NodeManager restart.
    'yarn.resourcemanager.recovery.enabled': true,
    'yarn.resourcemanager.store.class': 'org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore',
    'yarn.resourcemanager.fs.state-store.uri': `file://${state}/data/resourcemanager`,
    'yarn.node-attribute.fs-store.root-dir': `file://${state}/data/node-attributes`,
    'yarn.resourcemanager.work-preserving-recovery.enabled': true,
    'yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms': 1000,
    'yarn.resourcemanager.am.max-attempts': 2,

    // Tests wait for these timeouts, so they are short. A healthy process on a loaded machine still meets them.
    'yarn.nm.liveness-monitor.expiry-interval-ms': 30_000,
    // YARN's timeout starts at the launch of the container. Before the ApplicationMaster's first heartbeat, the node may unpack 300 MB.
    'yarn.am.liveness-monitor.expiry-interval-ms': 60_000,
    'yarn.resourcemanager.nodemanagers.heartbeat-interval-ms': 500,
    'yarn.resourcemanager.connect.max-wait.ms': 120_000,
    'yarn.resourcemanager.connect.retry-interval.ms': 500,

    'yarn.log-aggregation-enable': true,
    'yarn.nodemanager.remote-app-log-dir': '/yarn-logs',
    'yarn.log-aggregation.retain-seconds': 86_400,
  };
}

/**
 * @param {import('./layout.mjs').Ports} ports
 * @param {string} state
 * @param {'nodemanager1' | 'nodemanager2'} name
 */
function nodeManagerSite(ports, state, name) {
  const { containers, localizer, http, collector } = ports[name];
  return {
    'yarn.nodemanager.hostname': 'localhost',
    'yarn.nodemanager.bind-host': '127.0.0.1',
    // The port is fixed: a restarted NodeManager must register as the same node to recover its containers.
    'yarn.nodemanager.address': `localhost:${containers}`,
    'yarn.nodemanager.localizer.address': `localhost:${localizer}`,
    'yarn.nodemanager.webapp.address': `localhost:${http}`,
    'yarn.nodemanager.webapp.https.address': `localhost:${http}`,
    'yarn.nodemanager.collector-service.address': `localhost:${collector}`,
    'yarn.nodemanager.local-dirs': `${state}/data/${name}/local`,
    'yarn.nodemanager.log-dirs': `${state}/data/${name}/logs`,
    'yarn.nodemanager.recovery.enabled': true,
    'yarn.nodemanager.recovery.supervised': true,
    'yarn.nodemanager.recovery.dir': `${state}/data/${name}/recovery`,
    'yarn.nodemanager.container-executor.class': 'org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor',
    'yarn.nodemanager.resource.memory-mb': NODE.memoryMb,
    'yarn.nodemanager.resource.cpu-vcores': NODE.vcores,
    // The value "enforced" refers to enforcement by cgroups. Without cgroups, it disables the polling that kills containers over their
    // memory limit.
    'yarn.nodemanager.resource.memory.enforced': false,
    'yarn.nodemanager.pmem-check-enabled': true,
    // A Node.js process maps about 1 GB of virtual memory at startup.
    'yarn.nodemanager.vmem-check-enabled': false,
    'yarn.nodemanager.sleep-delay-before-sigkill.ms': 500,
    'yarn.nodemanager.delete.debug-delay-sec': 0,
    'yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage': 99.5,
  };
}

/** YARN only schedules GPUs here: no plugin discovers devices, and no container is confined to a device. */
const RESOURCE_TYPES = { 'yarn.resource-types': 'yarn.io/gpu', 'yarn.resource-types.yarn.io/gpu.maximum-allocation': 2 * NODE.gpus };
const NODE_RESOURCES = { 'yarn.nodemanager.resource-type.yarn.io/gpu': NODE.gpus };

function capacityScheduler() {
  /** @type {Properties} */
  const properties = {
    // The default calculator considers memory only.
    'yarn.scheduler.capacity.resource-calculator': 'org.apache.hadoop.yarn.util.resource.DominantResourceCalculator',
    'yarn.scheduler.capacity.maximum-am-resource-percent': '1.0',
    'yarn.scheduler.capacity.root.disable_preemption': true,
    'yarn.scheduler.capacity.node-locality-delay': -1,
    'yarn.scheduler.capacity.root.queues': QUEUES.join(','),
    'yarn.scheduler.capacity.root.acl_submit_applications': '*',
    // By default, all users are administrators, and access control lists have no effect.
    'yarn.scheduler.capacity.root.acl_administer_queue': ADMINISTRATOR,
  };
  for (const queue of QUEUES) {
    properties[`yarn.scheduler.capacity.root.${queue}.capacity`] = 100 / QUEUES.length;
    properties[`yarn.scheduler.capacity.root.${queue}.maximum-capacity`] = 100;
    properties[`yarn.scheduler.capacity.root.${queue}.user-limit-factor`] = 10;
  }
  return properties;
}

const LOG4J = `log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
log4j.logger.org.apache.hadoop.metrics2=WARN
`;

/** @param {Properties} properties */
export function toXml(properties) {
  /** @param {unknown} value */
  const escaped = (value) => String(value).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const set = Object.entries(properties).filter(([, value]) => value !== null);
  const lines = set.map(([name, value]) => `  <property><name>${escaped(name)}</name><value>${escaped(value)}</value></property>\n`);
  return `<?xml version="1.0"?>\n<configuration>\n${lines.join('')}</configuration>\n`;
}

/**
 * Writes one configuration folder per daemon, and `client` for all clients.
 * @param {string} folder
 * @param {object} cluster
 * @param {import('./layout.mjs').Ports} cluster.ports
 * @param {string} cluster.state
 * @param {readonly string[]} cluster.daemons
 * @param {(daemon: string) => readonly SiteProperties[]} cluster.overrides a later override wins
 */
export async function writeConfiguration(folder, { ports, state, daemons, overrides }) {
  for (const name of [...daemons, 'client']) {
    const layers = overrides(name);
    /** @param {keyof SiteProperties} site @returns {Properties} */
    const of = (site) => Object.assign({}, ...layers.map((each) => each[site]));
    const node = name === 'nodemanager1' || name === 'nodemanager2' ? nodeManagerSite(ports, state, name) : null;
    /** @type {Record<string, string>} */
    const files = {
      'core-site.xml': toXml({ ...coreSite(ports), ...of('core') }),
      'hdfs-site.xml': toXml({ ...hdfsSite(ports, state), ...of('hdfs') }),
      'yarn-site.xml': toXml({ ...yarnSite(ports, state), ...node, ...of('yarn') }),
      'resource-types.xml': toXml(RESOURCE_TYPES),
      'log4j.properties': LOG4J,
    };
    for (const [file, site] of /** @type {const} */ ([
      ['ssl-client.xml', 'sslClient'],
      ['ssl-server.xml', 'sslServer'],
      ['httpfs-site.xml', 'httpfs'],
      ['hdfs-rbf-site.xml', 'router'],
    ])) {
      if (layers.some((each) => each[site] !== undefined) && !(name === 'client' && site === 'sslServer')) {
        files[file] = toXml(of(site));
      }
    }
    if (node !== null) {
      files['node-resources.xml'] = toXml(NODE_RESOURCES);
    }
    if (name.startsWith('resourcemanager')) {
      files['capacity-scheduler.xml'] = toXml({ ...capacityScheduler(), ...of('scheduler') });
    }
    await mkdir(path.join(folder, name), { recursive: true });
    await Promise.all(Object.entries(files).map(([file, text]) => writeFile(path.join(folder, name, file), text)));
  }
}
