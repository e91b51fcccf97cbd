/**
 * A real Hadoop cluster on this machine: NameNode, DataNode, ResourceManager and two NodeManagers with simulated GPUs. Each daemon runs in
 * its own JVM and listens on the loopback interface only. All state is in the state folder and in /proc, so any process can control the
 * cluster.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeArchive } from './class-archive.mjs';
import { ADMINISTRATOR, writeConfiguration } from './configuration.mjs';
import { findActive, isServing, makeFolders, request } from './daemon-requests.mjs';
import { archiveOf, daemonCommand, findInstallation, formatNameNode, PROGRAMS, programOptions, runJava } from './java-programs.mjs';
import { DEFAULT_HADOOP, portsAt, stateFolder } from './layout.mjs';
import { ensureNativeLibrary, hasNativeLibrary } from './native-library.mjs';
import { containerProcesses, isAlive, listenerOf, processesWithArgument, signal } from './processes.mjs';
import { existingProfile, profileFile, profileNamed } from './profiles.mjs';

/** @typedef {import('./layout.mjs').DaemonName} DaemonName */
/** @typedef {{ name: string, pid: number | null, residentMb: number | null }} DaemonStatus */

/** @type {readonly DaemonName[]} */
const START_ORDER = ['resourcemanager', 'nodemanager1', 'nodemanager2', 'namenode', 'datanode'];

/** Ends a start that hangs. The daemons need 15 s of processor time, which takes minutes on a busy machine. A daemon that ends is reported at once. */
const READY_LIMIT_MS = 480_000;
const STOP_LIMIT_MS = 5_000;
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
    const installation = await findInstallation({ hadoop: version, ...(log ? { log } : {}) });
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
    await this.launchAll(stopped, installation);
    await this.waitUntilReady();
    await makeFolders(this);
    const archive = await archiveOf(this, installation);
    if (archive !== null && stopped.length === this.processes.length) {
      await makeArchive(archive, { folder: path.join(this.state, 'tmp'), ...installation });
    }
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
   * @param {import('./java-programs.mjs').Installation} installation
   */
  async launchAll(stopped, installation) {
    const early = [...this.profile.processes.map(({ name }) => name), ...this.order.first];
    for (const name of early.filter((each) => stopped.includes(each))) {
      await this.launch(name, installation);
      await this.waitUntilListening(name);
    }
    await this.profile.begin(this);
    for (const name of this.order.main.filter((each) => stopped.includes(each))) {
      if (name === 'namenode') {
        await formatNameNode(this, installation);
      }
      await this.launch(name, installation);
    }
    const last = this.order.last.filter((each) => stopped.includes(each));
    if (this.profile.beforeLast !== undefined && last.length > 0) {
      const { main, configuration, args, exitCodes } = this.profile.beforeLast;
      await runJava(this, { main, configuration, args, exitCodes, log: last[0] ?? main }, installation);
    }
    for (const name of last) {
      await this.launch(name, installation);
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
    const installation = await findInstallation({ hadoop: await this.hadoopVersion() });
    await this.requirePorts([name]);
    await this.launch(name, installation);
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
    return await isServing(this);
  }

  /**
   * Sends a request to a daemon's web server as the administrator.
   * @param {string} url
   * @param {RequestInit} [init]
   */
  async request(url, init) {
    return await request(this, url, init);
  }

  /** @param {'resourcemanager' | 'namenode'} kind */
  async activeName(kind) {
    await findActive(this);
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
   * @param {import('./java-programs.mjs').Installation} installation
   */
  async launch(name, installation) {
    await mkdir(path.dirname(this.logFile(name)), { recursive: true });
    const log = await open(this.logFile(name), 'a');
    const additional = this.profile.processes.find((each) => each.name === name);
    const { command, args, env } = additional?.command(this) ?? (await daemonCommand(this, name, installation));
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
   * Runs one of Hadoop's programs until it exits.
   * @param {Parameters<typeof runJava>[1]} program
   */
  async runProgram(program) {
    const installation = await findInstallation({ hadoop: await this.hadoopVersion() });
    await runJava(this, program, installation);
  }

  /**
   * Returns the command that runs one of Hadoop's programs as a client.
   * @param {string} main
   */
  async clientProgram(main) {
    const installation = await findInstallation({ hadoop: await this.hadoopVersion() });
    return [installation.java, ...(await programOptions(this, 'client', installation)), main];
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
