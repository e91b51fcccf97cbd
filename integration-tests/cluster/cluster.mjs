/**
 * A real Hadoop cluster on this machine: NameNode, DataNode, ResourceManager and two NodeManagers with simulated GPUs. Each daemon runs in
 * its own JVM and listens on the loopback interface only. All state is in the state folder and in /proc, so any process can control the
 * cluster.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, open, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { archiveFile, archiveOptions, makeArchive } from './class-archive.mjs';
import { ADMINISTRATOR, writeConfiguration } from './configuration.mjs';
import { gatewayJars, hadoopJars } from './jars.mjs';
import { DEFAULT_HADOOP, portsAt, stateFolder, versionFolder } from './layout.mjs';
import { ensureNativeLibrary, hasNativeLibrary, nativeLibraryFolder } from './native-library.mjs';
import { containerProcesses, isAlive, listenerOf, processesWithArgument, signal } from './processes.mjs';
import { existingProfile, profileFile, profileNamed } from './profiles.mjs';

/** @typedef {import('./layout.mjs').DaemonName} DaemonName */
/** @typedef {{ name: string, pid: number | null, residentMb: number | null }} DaemonStatus */

/** @type {Readonly<Record<DaemonName, { main: string, heap: string }>>} */
const PROGRAMS = {
  namenode: { main: 'org.apache.hadoop.hdfs.server.namenode.NameNode', heap: '192m' },
  datanode: { main: 'org.apache.hadoop.hdfs.server.datanode.DataNode', heap: '128m' },
  resourcemanager: { main: 'org.apache.hadoop.yarn.server.resourcemanager.ResourceManager', heap: '256m' },
  nodemanager1: { main: 'org.apache.hadoop.yarn.server.nodemanager.NodeManager', heap: '192m' },
  nodemanager2: { main: 'org.apache.hadoop.yarn.server.nodemanager.NodeManager', heap: '192m' },
};

const JAVA_FLAGS = [
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

/** @type {readonly DaemonName[]} */
const START_ORDER = ['resourcemanager', 'nodemanager1', 'nodemanager2', 'namenode', 'datanode'];

const READY_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 5_000;
const RESPONSE_LIMIT_MS = 12_000;
const POLL_MS = 200;

export class Cluster {
  /**
   * @param {number} offset added to each of Hadoop's port numbers; from 0 to 20000
   * @param {{ profile?: string }} [options] profile: by default, that of the existing cluster, or `plain` for a new cluster
   */
  constructor(offset, { profile } = {}) {
    this.offset = offset;
    this.profileName = profile ?? existingProfile(offset) ?? 'plain';
    this.profile = profileNamed(this.profileName);
    const daemons = Object.entries(this.profile.daemons ?? {});
    this.ports = portsAt(offset, [...this.profile.processes, ...daemons.map(([name, { ports }]) => ({ name, ports }))]);
    /** @param {string} start */
    const starting = (start) => daemons.filter(([, each]) => each.start === start).map(([name]) => name);
    this.order = { first: starting('first'), main: [...START_ORDER, ...starting('with Hadoop')], last: starting('last') };
    this.daemons = [...this.order.first, ...this.order.main, ...this.order.last];
    this.processes = [...this.profile.processes.map(({ name }) => name), ...this.daemons];
    /** @type {Readonly<Record<string, Pick<import('./profiles.mjs').AdditionalDaemon, 'main' | 'heap' | 'args' | 'flags' | 'jars'>>>} */
    this.programs = { ...PROGRAMS, ...this.profile.daemons };
    /** HDFS superuser and YARN administrator. */
    this.administrator = ADMINISTRATOR;
    this.state = stateFolder(offset);
    this.configuration = path.join(this.state, 'conf', 'client');
    /** Web address of the ResourceManager that was active at the last `isReady`. */
    this.resourceManager = this.webAddresses('resourcemanager')[0];
    /** Web address of the NameNode that was active at the last `isReady`. */
    this.nameNode = this.webAddresses('namenode')[0];
    this.defaultFs = this.profile.properties(this).core?.['fs.defaultFS'] ?? `hdfs://localhost:${this.ports.namenode.rpc}`;
  }

  /**
   * Returns the web addresses of a daemon and its standby.
   * @param {'resourcemanager' | 'namenode'} kind
   */
  webAddresses(kind) {
    const scheme = this.profile.scheme ?? 'http';
    const own = `${scheme}://localhost:${this.ports[kind].http}`;
    const standby = this.ports[`${kind}-standby`];
    return /** @type {[string, ...string[]]} */ (standby === undefined ? [own] : [own, `${scheme}://localhost:${standby.http}`]);
  }

  /**
   * Starts the processes that are not running, and returns when both NodeManagers are active and HDFS accepts writes.
   * @param {{ fresh?: boolean, hadoop?: string, overrides?: import('./configuration.mjs').SiteProperties, log?: (line: string) => void }} [options]
   *   fresh: start with an empty HDFS and no applications; hadoop: Hadoop version, by default the cluster's previous
   *   version; overrides: properties to override in the configuration of all daemons and clients
   */
  async up({ fresh = false, hadoop, overrides = {}, log } = {}) {
    if (fresh) {
      await this.wipe();
    }
    const existing = existingProfile(this.offset) ?? this.profileName;
    if (existing !== this.profileName) {
      throw new Error(`the cluster at this offset has the profile ${existing}: replace it (up --fresh), or choose another offset`);
    }
    await this.setVersion(hadoop);
    const version = await this.hadoopVersion();
    const [jars, java] = await Promise.all([hadoopJars({ hadoop: version, ...(log ? { log } : {}) }), findJava()]);
    if (hasNativeLibrary(version)) {
      await ensureNativeLibrary(log);
    }
    const stopped = await this.stoppedDaemons();
    if (stopped.length === this.processes.length) {
      await this.killContainers();
    }
    await this.requirePorts(stopped);
    await mkdir(this.state, { recursive: true });
    await writeFile(profileFile(this.state), this.profileName);
    await this.profile.prepare(this, log);
    if (stopped.length > 0) {
      await this.configure(overrides);
    }
    await this.launchAll(stopped, jars, java);
    await this.waitUntilReady();
    await this.makeFolders();
    const archive = await this.archive(jars, java);
    if (archive !== null && stopped.length === this.processes.length) {
      await makeArchive(archive, { folder: path.join(this.state, 'tmp'), jars, java });
    }
  }

  /**
   * Returns the path of the archive with the daemons' classes. Only the default Hadoop version starts often enough to need an archive.
   * @param {string} jars
   * @param {string} java
   */
  async archive(jars, java) {
    return (await this.hadoopVersion()) === DEFAULT_HADOOP ? archiveFile(jars, java) : null;
  }

  /** @param {import('./configuration.mjs').SiteProperties} overrides */
  async configure(overrides) {
    const { ports, state, daemons } = this;
    /** @param {string} name */
    const layers = (name) => [this.profile.properties(this), this.profile.ownProperties?.(this, name) ?? {}, overrides];
    await writeConfiguration(path.join(state, 'conf'), { ports, state, daemons, overrides: layers });
  }

  /**
   * @param {readonly string[]} stopped
   * @param {string} jars
   * @param {string} java
   */
  async launchAll(stopped, jars, java) {
    const early = [...this.profile.processes.map(({ name }) => name), ...this.order.first];
    for (const name of early.filter((each) => stopped.includes(each))) {
      await this.launch(name, jars, java);
      await this.waitUntilListening(name);
    }
    await this.profile.begin(this);
    for (const name of this.order.main.filter((each) => stopped.includes(each))) {
      if (name === 'namenode') {
        await this.format(jars, java);
      }
      await this.launch(name, jars, java);
    }
    const last = this.order.last.filter((each) => stopped.includes(each));
    if (this.profile.beforeLast !== undefined && last.length > 0) {
      const { main, configuration, args, exitCodes } = this.profile.beforeLast;
      await this.runJava({ main, configuration, args, exitCodes, log: last[0] ?? main }, jars, java);
    }
    for (const name of last) {
      await this.launch(name, jars, java);
    }
  }

  /** Stops every process and every container. NodeManagers with recovery leave containers running when they stop. */
  async down() {
    // Processes of another profile may be running in this state folder. The search covers the marks of all profiles.
    await Promise.all((await this.runningProcesses()).map((name) => this.stop(name)));
    await this.killContainers();
  }

  async wipe() {
    await this.down();
    await rm(this.state, { recursive: true, force: true });
  }

  /**
   * Starts one daemon, without waiting until it serves requests.
   * @param {string} name
   */
  async start(name) {
    if (await this.pidOf(name)) {
      return;
    }
    const [jars, java] = await Promise.all([hadoopJars({ hadoop: await this.hadoopVersion() }), findJava()]);
    await this.requirePorts([name]);
    await this.launch(name, jars, java);
  }

  /**
   * Sends SIGKILL and waits until the process has ended.
   * @param {string} name
   */
  async kill(name) {
    await this.stop(name, 'SIGKILL');
  }

  /**
   * @param {string} name
   * @param {NodeJS.Signals} [first]
   */
  async stop(name, first = 'SIGTERM') {
    const pid = await this.pidOf(name);
    if (pid === null) {
      return;
    }
    signal(pid, first);
    for (const deadline = Date.now() + STOP_LIMIT_MS; Date.now() < deadline && isAlive(pid); ) {
      await delay(20);
    }
    // A process stopped with SIGSTOP reacts to no other signal.
    if (isAlive(pid)) {
      signal(pid, 'SIGKILL');
    }
    while (isAlive(pid)) {
      await delay(20);
    }
    // The kernel releases the sockets of a killed JVM shortly after the process has ended. If a port is still in use after the deadline,
    // `start` reports which process uses it.
    for (const deadline = Date.now() + READY_LIMIT_MS; Date.now() < deadline && (await this.portsInUse([name])).length > 0; ) {
      await delay(20);
    }
  }

  /** @returns {Promise<{ ready: boolean, daemons: DaemonStatus[] }>} */
  async status() {
    const daemons = await Promise.all(
      this.processes.map(async (name) => {
        const pid = await this.pidOf(name);
        const text = pid === null ? '' : await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
        const kilobytes = /^VmRSS:\s+(\d+)/m.exec(text)?.[1];
        return { name, pid, residentMb: kilobytes === undefined ? null : Math.round(Number(kilobytes) / 1024) };
      }),
    );
    return { ready: daemons.every(({ pid }) => pid !== null) && (await this.isReady()), daemons };
  }

  /** Returns the Hadoop version that wrote the data in the state folder. */
  async hadoopVersion() {
    return (await readFile(this.versionFile(), 'utf8').catch(() => DEFAULT_HADOOP)).trim();
  }

  versionFile() {
    return path.join(this.state, 'hadoop-version');
  }

  /**
   * Sets the Hadoop version. A cluster keeps its version until it is wiped, because Hadoop versions cannot read each other's data.
   * @param {string | undefined} wanted
   */
  async setVersion(wanted) {
    const held = await this.hadoopVersion();
    if (existsSync(this.state) && wanted !== undefined && wanted !== held) {
      throw new Error(`the cluster holds data of Hadoop ${held}; to replace it with an empty one of ${wanted}, add --fresh`);
    }
    await mkdir(this.state, { recursive: true });
    await writeFile(this.versionFile(), `${wanted ?? held}\n`);
  }

  /**
   * Returns the environment variables of Hadoop clients for this cluster.
   * @param {string} [user] the profile's usual user by default
   * @returns {Record<string, string>}
   */
  environment(user) {
    const own = this.profile.environment?.(this, user) ?? (user === undefined ? {} : { HADOOP_USER_NAME: user });
    return { HADOOP_CONF_DIR: this.configuration, ...own };
  }

  /**
   * @param {string} name
   * @returns {Promise<number | null>}
   */
  async pidOf(name) {
    const mark = this.mark(name);
    return processesWithArgument(mark).find(({ args }) => args.includes(mark))?.pid ?? null;
  }

  /**
   * Lists the running container processes of one application, or of all applications.
   * @param {string} [applicationId]
   */
  async containers(applicationId) {
    const all = containerProcesses(path.join(this.state, 'data'));
    return applicationId === undefined ? all : all.filter((each) => each.applicationId === applicationId);
  }

  async killContainers() {
    for (let left = await this.containers(); left.length > 0; left = await this.containers()) {
      for (const { pid } of left) {
        signal(pid, 'SIGKILL');
      }
      await delay(20);
    }
  }

  /** @param {string} name */
  logFile(name) {
    return path.join(this.state, 'logs', `${name}.log`);
  }

  /**
   * Waits until two NodeManagers are active and HDFS accepts writes.
   * @param {{ timeoutMs?: number }} [options]
   */
  async waitUntilReady({ timeoutMs = READY_LIMIT_MS } = {}) {
    for (const deadline = Date.now() + timeoutMs; !(await this.isReady()); ) {
      for (const name of await this.stoppedDaemons()) {
        throw new Error(`the ${name} has ended. The last lines of ${this.logFile(name)}:\n${await this.lastLines(name)}`);
      }
      if (Date.now() > deadline) {
        throw new Error(`the cluster was not ready after ${timeoutMs / 1000} s; see ${path.dirname(this.logFile('namenode'))}`);
      }
      await delay(POLL_MS);
    }
  }

  async isReady() {
    await this.findActive();
    const nodes = [this.ports.nodemanager1, this.ports.nodemanager2];
    const [system, info, metrics, ...served] = await Promise.all([
      this.getJson(`${this.nameNode}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState`),
      this.getJson(`${this.nameNode}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo`),
      this.getJson(`${this.resourceManager}/ws/v1/cluster/metrics`),
      // The ResourceManager reports a node as active for several seconds after its NodeManager exits, so each NodeManager is queried as
      // well.
      ...nodes.map(({ http }) => this.getJson(`${this.profile.scheme ?? 'http'}://localhost:${http}/ws/v1/node/info`)),
    ]);
    return (
      system?.beans?.[0]?.NumLiveDataNodes === 1 &&
      info?.beans?.[0]?.Safemode === '' &&
      metrics?.clusterMetrics?.activeNodes === nodes.length &&
      served.every((node) => node?.nodeInfo?.nodeHealthy === true)
    );
  }

  /** Determines which daemon of each pair is active. If neither is active, the previous values remain. */
  async findActive() {
    const resourceManagers = this.webAddresses('resourcemanager');
    const nameNodes = this.webAddresses('namenode');
    if (resourceManagers.length === 1 && nameNodes.length === 1) {
      return;
    }
    const infos = await Promise.all(resourceManagers.map((url) => this.getJson(`${url}/ws/v1/cluster/info`)));
    const states = await Promise.all(nameNodes.map((url) => this.getJson(`${url}/jmx?qry=Hadoop:service=NameNode,name=NameNodeStatus`)));
    this.resourceManager = resourceManagers.find((_, at) => infos[at]?.clusterInfo?.haState === 'ACTIVE') ?? this.resourceManager;
    this.nameNode = nameNodes.find((_, at) => states[at]?.beans?.[0]?.State === 'active') ?? this.nameNode;
  }

  /** @param {'resourcemanager' | 'namenode'} kind */
  async activeName(kind) {
    await this.findActive();
    const active = kind === 'namenode' ? this.nameNode : this.resourceManager;
    return this.webAddresses(kind).indexOf(active) === 0 ? kind : `${kind}-standby`;
  }

  /** @returns {Promise<string[]>} */
  async stoppedDaemons() {
    const running = await this.runningProcesses();
    return this.processes.filter((name) => !running.includes(name));
  }

  /** @returns {Promise<string[]>} */
  async runningProcesses() {
    const mark = this.mark('');
    const marks = processesWithArgument(mark).flatMap(({ args }) => args.filter((arg) => arg.startsWith(mark)));
    return marks.map((each) => each.slice(mark.length));
  }

  /**
   * Returns the command-line argument that identifies the process. Programs without such an option get it as argument 0.
   * @param {string} name
   */
  mark(name) {
    return `-Dcluster.in.a.box=${this.state}/${name}`;
  }

  /**
   * @param {string} name
   * @param {string} jars
   * @param {string} java
   */
  async launch(name, jars, java) {
    await mkdir(path.dirname(this.logFile(name)), { recursive: true });
    const log = await open(this.logFile(name), 'a');
    const additional = this.profile.processes.find((each) => each.name === name);
    const { command, args, env } = additional?.command(this) ?? (await this.daemon(name, jars, java));
    const child = spawn(command, args, {
      argv0: additional === undefined ? command : this.mark(name),
      cwd: this.state,
      env,
      // The daemon gets its own session, so Ctrl-C at the terminal does not reach it.
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    child.unref();
    try {
      await new Promise((resolve, reject) => child.once('spawn', () => resolve(undefined)).once('error', reject));
    } finally {
      await log.close();
    }
  }

  /**
   * @param {string} name
   * @param {string} jars
   * @param {string} java
   */
  async daemon(name, jars, java) {
    const configuration = path.join(this.state, 'conf', name);
    const temporary = path.join(this.state, 'tmp', name);
    const webapps = await this.webapps();
    await mkdir(temporary, { recursive: true });
    const program = this.programs[name];
    if (program === undefined) {
      throw new Error(`this cluster has no ${name}`);
    }
    const { main, heap, args = () => [], flags: own = () => [], jars: from } = program;
    const classes = from === 'gateways' ? await gatewayJars() : jars;
    const archive = from === 'gateways' ? null : await this.archive(jars, java);
    const version = await this.hadoopVersion();
    const isNative = name.startsWith('nodemanager') && hasNativeLibrary(version);
    const flags = [
      `-Xmx${heap}`,
      ...JAVA_FLAGS,
      ...(archive === null ? [] : archiveOptions(archive, temporary)),
      ...this.profile.javaFlags(this, version),
      ...own(this),
      ...(isNative ? [`-Djava.library.path=${nativeLibraryFolder()}`] : []),
      `-Djava.io.tmpdir=${temporary}`,
      `-Dhadoop.log.dir=${path.dirname(this.logFile(name))}`,
      this.mark(name),
    ];
    return {
      command: java,
      args: [...flags, '-cp', [`${classes}/*`, configuration, webapps].join(':'), main, ...args(this)],
      // NodeManagers pass HADOOP_CONF_DIR and JAVA_HOME to containers. Containers must not inherit other variables of this environment.
      env: {
        HADOOP_CONF_DIR: configuration,
        JAVA_HOME: path.dirname(path.dirname(java)),
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        USER: ADMINISTRATOR,
        LANG: 'C.UTF-8',
      },
    };
  }

  /** HDFS daemons require folders for web pages, which the jars do not contain. Empty folders suffice. */
  async webapps() {
    const folder = path.join(this.state, 'web');
    await Promise.all(['hdfs', 'datanode', 'router'].map((name) => mkdir(path.join(folder, 'webapps', name), { recursive: true })));
    return folder;
  }

  /**
   * Creates the name directory as a copy of an empty one, which is formatted once per version: a copy is faster than another JVM start.
   * Writes under a temporary name and then renames, so an interrupted call leaves no incomplete directory.
   * @param {string} jars
   * @param {string} java
   * @returns {Promise<void>}
   */
  async format(jars, java) {
    const target = path.join(this.state, 'data', 'namenode');
    if (existsSync(target)) {
      return;
    }
    await mkdir(path.dirname(target), { recursive: true });
    const copy = `${target}.new`;
    const formatted = path.join(versionFolder(await this.hadoopVersion()), 'formatted');
    await rm(copy, { recursive: true, force: true });
    if (existsSync(formatted)) {
      await this.profile.copyFormatted?.(this, formatted);
      await cp(formatted, copy, { recursive: true });
      await rename(copy, target);
      return;
    }
    const args = [`-Ddfs.namenode.name.dir=file://${copy}`, '-format', '-nonInteractive'];
    await this.runJava({ main: PROGRAMS.namenode.main, configuration: 'namenode', args, exitCodes: [0], log: 'namenode' }, jars, java);
    await rename(copy, formatted).catch((error) => {
      // Another cluster that started at the same time has already stored a formatted directory.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') {
        throw error;
      }
    });
    return this.format(jars, java);
  }

  /**
   * Runs a Java program with a daemon's configuration until the program exits.
   * @param {{ main: string, configuration: string, args: readonly string[], exitCodes: readonly number[], log: string }} program
   * @param {string} jars
   * @param {string} java
   */
  async runJava({ main, configuration, args, exitCodes, log: name }, jars, java) {
    const log = await open(this.logFile(name), 'a');
    try {
      const words = [...(await this.programOptions(configuration, jars, java)), main, ...args];
      const child = spawn(java, words, { stdio: ['ignore', log.fd, log.fd], timeout: READY_LIMIT_MS });
      const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
      if (!exitCodes.includes(code)) {
        throw new Error(`${main} ${args.join(' ')} failed; see ${this.logFile(name)}`);
      }
    } finally {
      await log.close();
    }
  }

  /**
   * @param {string} configuration name of a daemon, or `client`
   * @param {string} jars
   * @param {string} java
   */
  async programOptions(configuration, jars, java) {
    const archive = await this.archive(jars, java);
    const own = this.profile.javaFlags(this, await this.hadoopVersion());
    const flags = [...JAVA_FLAGS, ...(archive === null ? [] : archiveOptions(archive)), ...own];
    return ['-Xmx128m', ...flags, '-cp', [`${jars}/*`, path.join(this.state, 'conf', configuration)].join(':')];
  }

  /**
   * Runs one of Hadoop's programs until it exits.
   * @param {Parameters<Cluster['runJava']>[0]} program
   */
  async runProgram(program) {
    const [jars, java] = await Promise.all([hadoopJars({ hadoop: await this.hadoopVersion() }), findJava()]);
    await this.runJava(program, jars, java);
  }

  /**
   * Returns the command that runs one of Hadoop's programs as a client.
   * @param {string} main
   */
  async clientProgram(main) {
    const [jars, java] = await Promise.all([hadoopJars({ hadoop: await this.hadoopVersion() }), findJava()]);
    return [java, ...(await this.programOptions('client', jars, java)), main];
  }

  /** Creates the home folders, the folder for aggregated logs, and a folder with write access for every user. */
  async makeFolders() {
    const users = [...new Set([ADMINISTRATOR, 'alice', 'bob'])];
    await this.makeFolder('/user', '755', ADMINISTRATOR);
    for (const folder of ['/tmp', '/yarn-logs']) {
      await this.makeFolder(folder, '1777', ADMINISTRATOR);
    }
    await Promise.all(users.map((user) => this.makeFolder(`/user/${user}`, '700', user)));
  }

  /**
   * @param {string} folder
   * @param {string} permission
   * @param {string} owner
   */
  async makeFolder(folder, permission, owner) {
    for (const query of ['op=MKDIRS', `op=SETOWNER&owner=${owner}`, `op=SETPERMISSION&permission=${permission}`]) {
      const answer = await this.request(`${this.nameNode}/webhdfs/v1${folder}?${query}`, { method: 'PUT' });
      if (!answer.ok) {
        throw new Error(`${query} of ${folder} failed: ${await answer.text()}`);
      }
      await answer.arrayBuffer();
    }
  }

  /**
   * Sends a request to a daemon's web server as the administrator.
   * @param {string} url
   * @param {RequestInit} [init]
   */
  async request(url, init = {}) {
    return respondsInTime(url, this.send(url, init));
  }

  /**
   * @param {string} url
   * @param {RequestInit} init
   */
  async send(url, init) {
    const limited = { signal: AbortSignal.timeout(RESPONSE_LIMIT_MS - 2_000), ...init };
    const { request, send } = this.profile;
    if (request !== undefined) {
      return request(this, url, limited);
    }
    // A redirect to a DataNode already contains the user's delegation token.
    const named = /[?&]delegation=/.test(url) ? url : `${url}${url.includes('?') ? '&' : '?'}user.name=${ADMINISTRATOR}`;
    return send === undefined ? fetch(named, limited) : send(this, named, limited);
  }

  /** @param {string} url */
  async getJson(url) {
    try {
      const answer = await this.request(url, { signal: AbortSignal.timeout(2000) });
      return answer.ok ? /** @type {any} */ (await respondsInTime(url, answer.json())) : null;
    } catch {
      return null;
    }
  }

  /** @param {string} name */
  async waitUntilListening(name) {
    for (
      const deadline = Date.now() + READY_LIMIT_MS;
      (await this.portsInUse([name])).length < Object.keys(this.ports[name] ?? {}).length;
    ) {
      if (Date.now() > deadline || (await this.pidOf(name)) === null) {
        throw new Error(`the ${name} does not listen. The last lines of ${this.logFile(name)}:\n${await this.lastLines(name)}`);
      }
      await delay(POLL_MS);
    }
  }

  /** @param {readonly string[]} [daemons] */
  async portsInUse(daemons = this.processes) {
    const all = daemons.flatMap((name) => Object.entries(this.ports[name] ?? {}).map(([use, port]) => ({ name, use, port })));
    const free = await Promise.all(all.map(({ port }) => isFree(port)));
    return all.filter((_, index) => !free[index]);
  }

  /** @param {readonly string[]} daemons */
  async requirePorts(daemons) {
    for (const { name, use, port } of await this.portsInUse(daemons)) {
      const holder = listenerOf(port) ?? 'another process';
      throw new Error(
        `port ${port} (${name} ${use}) is in use by ${holder}. Stop that process, or move the cluster: --port-offset N or TONY_CLUSTER_OFFSET=N (now ${this.offset}).`,
      );
    }
  }

  /** @param {string} name */
  async lastLines(name) {
    const text = await readFile(this.logFile(name), 'utf8').catch(() => '');
    return text.trimEnd().split('\n').slice(-12).join('\n');
  }
}

/** @param {number} port */
function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
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

/**
 * Limits the wait for a response, even if fetch does not respect its signal: the start of a cluster once waited for minutes although all
 * daemons were idle.
 * @template T
 * @param {string} url
 * @param {Promise<T>} response
 * @returns {Promise<T>}
 */
async function respondsInTime(url, response) {
  const timer = new AbortController();
  const expired = delay(RESPONSE_LIMIT_MS, null, { signal: timer.signal }).then(() => {
    throw new Error(`${url} did not respond within ${RESPONSE_LIMIT_MS / 1000} s`);
  });
  try {
    return await Promise.race([response, expired]);
  } finally {
    timer.abort();
  }
}
