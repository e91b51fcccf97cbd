/** The Java programs of a cluster: the command lines of its daemons, and Hadoop's own programs. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, open, realpath, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { archiveFile, archiveOptions } from './class-archive.mjs';
import { ADMINISTRATOR } from './configuration.mjs';
import { gatewayJars, hadoopJars } from './jars.mjs';
import { DEFAULT_HADOOP, versionFolder } from './layout.mjs';
import { hasNativeLibrary, nativeLibraryFolder } from './native-library.mjs';

/** @typedef {import('./cluster.mjs').Cluster} Cluster */
/** @typedef {import('./layout.mjs').DaemonName} DaemonName */
/**
 * @typedef {object} Installation
 * @property {string} jars folder with Hadoop's jars
 * @property {string} java path of the `java` program
 */

/** @type {Readonly<Record<DaemonName, { main: string, heap: string }>>} */
export const PROGRAMS = {
  namenode: { main: 'org.apache.hadoop.hdfs.server.namenode.NameNode', heap: '192m' },
  datanode: { main: 'org.apache.hadoop.hdfs.server.datanode.DataNode', heap: '128m' },
  resourcemanager: { main: 'org.apache.hadoop.yarn.server.resourcemanager.ResourceManager', heap: '256m' },
  nodemanager1: { main: 'org.apache.hadoop.yarn.server.nodemanager.NodeManager', heap: '192m' },
  nodemanager2: { main: 'org.apache.hadoop.yarn.server.nodemanager.NodeManager', heap: '192m' },
};

const FLAGS = [
  // These options favor a fast start and low memory over peak speed: serial collector, C1 compiler only, no bytecode verification.
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-XX:+UnlockDiagnosticVMOptions',
  '-XX:-BytecodeVerificationRemote',
  '-XX:-UsePerfData',
  '-XX:+ExitOnOutOfMemoryError',
  '-Djava.net.preferIPv4Stack=true',
  // Hadoop's dependency injection defines classes at run time, which Java 17 forbids by default.
  '--add-opens=java.base/java.lang=ALL-UNNAMED',
];

/** How long a Java program may run. */
const RUN_LIMIT_MS = 120_000;

/**
 * Finds Hadoop's jars, which it downloads if necessary, and Java.
 * @param {{ hadoop: string, log?: (line: string) => void }} options
 * @returns {Promise<Installation>}
 */
export async function findInstallation(options) {
  const [jars, java] = await Promise.all([hadoopJars(options), findJava()]);
  return { jars, java };
}

/**
 * Returns the path of the archive with the daemons' classes. Only the default Hadoop version starts often enough to need an archive.
 * @param {Cluster} cluster
 * @param {Installation} installation
 */
export async function archiveOf(cluster, { jars, java }) {
  return (await cluster.hadoopVersion()) === DEFAULT_HADOOP ? archiveFile(jars, java) : null;
}

/**
 * @param {Cluster} cluster
 * @param {string} name
 * @param {Installation} installation
 */
export async function daemonCommand(cluster, name, installation) {
  const { jars, java } = installation;
  const configuration = path.join(cluster.state, 'conf', name);
  const temporary = path.join(cluster.state, 'tmp', name);
  const webFolder = await webapps(cluster);
  await mkdir(temporary, { recursive: true });
  const program = cluster.programs[name];
  if (program === undefined) {
    throw new Error(`this cluster has no ${name}`);
  }
  const { main, heap, args = () => [], flags: own = () => [], jars: from } = program;
  const classes = from === 'gateways' ? await gatewayJars() : jars;
  const archive = from === 'gateways' ? null : await archiveOf(cluster, installation);
  const version = await cluster.hadoopVersion();
  const isNative = name.startsWith('nodemanager') && hasNativeLibrary(version);
  const flags = [
    `-Xmx${heap}`,
    ...FLAGS,
    ...(archive === null ? [] : archiveOptions(archive, temporary)),
    ...cluster.profile.javaFlags(cluster, version),
    ...own(cluster),
    ...(isNative ? [`-Djava.library.path=${nativeLibraryFolder()}`] : []),
    `-Djava.io.tmpdir=${temporary}`,
    `-Dhadoop.log.dir=${path.dirname(cluster.logFile(name))}`,
    cluster.mark(name),
  ];
  return {
    command: java,
    args: [...flags, '-cp', [`${classes}/*`, configuration, webFolder].join(':'), main, ...args(cluster)],
    // NodeManagers pass HADOOP_CONF_DIR and JAVA_HOME to containers. Containers must not inherit other variables of this environment.
    env: {
      HADOOP_CONF_DIR: configuration,
      JAVA_HOME: path.dirname(path.dirname(java)),
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      USER: ADMINISTRATOR,
      LANG: process.env.TONY_CLUSTER_LANG ?? 'C.UTF-8',
    },
  };
}

/**
 * HDFS daemons require folders for web pages, which the jars do not contain. Empty folders suffice.
 * @param {Cluster} cluster
 */
async function webapps(cluster) {
  const folder = path.join(cluster.state, 'web');
  await Promise.all(['hdfs', 'datanode', 'router'].map((name) => mkdir(path.join(folder, 'webapps', name), { recursive: true })));
  return folder;
}

/**
 * Creates the name directory as a copy of an empty one, which is formatted once per version: a copy is faster than another JVM start.
 * Writes under a temporary name and then renames, so an interrupted call leaves no incomplete directory.
 * @param {Cluster} cluster
 * @param {Installation} installation
 * @returns {Promise<void>}
 */
export async function formatNameNode(cluster, installation) {
  const target = path.join(cluster.state, 'data', 'namenode');
  if (existsSync(target)) {
    return;
  }
  await mkdir(path.dirname(target), { recursive: true });
  const copy = `${target}.new`;
  const formatted = path.join(versionFolder(await cluster.hadoopVersion()), 'formatted');
  await rm(copy, { recursive: true, force: true });
  if (existsSync(formatted)) {
    await cluster.profile.copyFormatted?.(cluster, formatted);
    await cp(formatted, copy, { recursive: true });
    await rename(copy, target);
    return;
  }
  const args = [`-Ddfs.namenode.name.dir=file://${copy}`, '-format', '-nonInteractive'];
  await runJava(cluster, { main: PROGRAMS.namenode.main, configuration: 'namenode', args, exitCodes: [0], log: 'namenode' }, installation);
  await rename(copy, formatted).catch((error) => {
    // Another cluster that started at the same time has already stored a formatted directory.
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') {
      throw error;
    }
  });
  return formatNameNode(cluster, installation);
}

/**
 * Runs a Java program with a daemon's configuration until the program exits.
 * @param {Cluster} cluster
 * @param {{ main: string, configuration: string, args: readonly string[], exitCodes: readonly number[], log: string }} program
 * @param {Installation} installation
 */
export async function runJava(cluster, { main, configuration, args, exitCodes, log: name }, installation) {
  const { java } = installation;
  const log = await open(cluster.logFile(name), 'a');
  try {
    const words = [...(await programOptions(cluster, configuration, installation)), main, ...args];
    const child = spawn(java, words, { stdio: ['ignore', log.fd, log.fd], timeout: RUN_LIMIT_MS });
    const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
    if (!exitCodes.includes(code)) {
      throw new Error(`${main} ${args.join(' ')} failed; see ${cluster.logFile(name)}`);
    }
  } finally {
    await log.close();
  }
}

/**
 * @param {Cluster} cluster
 * @param {string} configuration name of a daemon, or `client`
 * @param {Installation} installation
 */
export async function programOptions(cluster, configuration, installation) {
  const { jars } = installation;
  const archive = await archiveOf(cluster, installation);
  const own = cluster.profile.javaFlags(cluster, await cluster.hadoopVersion());
  const flags = [...FLAGS, ...(archive === null ? [] : archiveOptions(archive)), ...own];
  return ['-Xmx128m', ...flags, '-cp', [`${jars}/*`, path.join(cluster.state, 'conf', configuration)].join(':')];
}

async function findJava() {
  const folders = [...(process.env.JAVA_HOME ? [path.join(process.env.JAVA_HOME, 'bin')] : []), ...(process.env.PATH ?? '').split(':')];
  for (const folder of folders.filter(Boolean)) {
    const found = await realpath(path.join(folder, 'java')).catch(() => null);
    if (found !== null) {
      return found;
    }
  }
  throw new Error('`java` was not found. Install a Java runtime, 11 or 17 (Debian: apt-get install default-jre-headless).');
}
