import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { CONTAINER_LAYOUT, type FrozenJob, type Role } from '../../conf/job.ts';
import type { JobResult } from '../../conf/status/status.ts';
import { encodeCredentials } from '../../hadoop/rpc/credentials.ts';
import type { ContainerEnd } from '../../hadoop/yarn/container-exit.ts';
import { pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { readStat } from '../../platform/process-stat.ts';
import { Secret } from '../../platform/secret.ts';
import { joinUri } from '../../storage/uri.ts';
import { askedResources } from '../job/pending-reasons.ts';
import type { Container } from '../job/state/events.ts';
import type { LaunchSpecification, Negotiator, NegotiatorListener, RegistrationResult } from './negotiator.ts';

/** Delay in ms between SIGTERM and SIGKILL. Same as the default value of yarn.nodemanager.sleep-delay-before-sigkill.ms. */
const KILL_AFTER_MS = 250;
/**
 * Poll interval in ms for processes that an earlier attempt started. Polling is necessary because Node.js reports exits only for this
 * process's own children.
 */
const WATCH_MS = 200;
/** Maximum time in ms to wait for killed processes when the job ends. */
const END_MS = 5_000;
const STOPPED_BY_MASTER = -105;
const ABORTED = -100;
/** Exit status reported for processes that an earlier attempt started, because their real status is unknown. */
const KILLED = 137;

/** Name of the only node. The name contains no port, because a local job has no NodeManager. */
const NODE = 'localhost';
/**
 * File that exists in a container's folder while the container's process is running. A later attempt uses this file to find the process.
 */
const RECORD = 'container.json';

interface ContainerRecord {
  readonly id: string;
  readonly role: string;
  readonly memoryMb: number;
  readonly pid: number;
  /** Start time in clock ticks since boot. Because the kernel reuses pids, only the pid and the start time together identify a process. */
  readonly startTime: string;
}

interface Running {
  readonly record: ContainerRecord;
  stopped: boolean;
  killTimer: NodeJS.Timeout | null;
}

export interface LocalNegotiatorOptions {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  readonly listener: NegotiatorListener;
  readonly log: Logger;
  readonly host: string;
}

/**
 * Runs containers as processes on this machine, with the same folders and signals that a NodeManager would use. As on YARN, containers keep
 * running when an attempt fails, and the next attempt takes them over.
 */
export class LocalNegotiator implements Negotiator {
  readonly #options: LocalNegotiatorOptions;
  readonly #directory: string;
  readonly #allocated = new Map<string, Container>();
  readonly #running = new Map<string, Running>();
  readonly #wanted = new Map<string, { role: Role; count: number }>();
  readonly #clearing = new Set<Promise<void>>();
  #sequence = 1;
  #watch: NodeJS.Timeout | null = null;
  #allocating: NodeJS.Immediate | null = null;
  #closed = false;

  constructor(options: LocalNegotiatorOptions) {
    this.#options = options;
    const { frozen } = options;
    if (frozen.cluster.kind !== 'local') {
      throw new TonyError('INTERNAL', 'A job for YARN cannot run as processes on this machine.');
    }
    this.#directory = frozen.cluster.directory;
  }

  async register(): Promise<RegistrationResult> {
    const records = await this.#records();
    const survivors = records.filter((record) => startTimeOf(record.pid) === record.startTime);
    for (const record of survivors) {
      this.#running.set(record.id, { record, stopped: false, killTimer: null });
    }
    setImmediate(() => {
      if (this.#closed) {
        return;
      }
      this.#options.listener.cluster(1, {});
      for (const record of records) {
        if (!survivors.includes(record)) {
          void this.#ended(record.id, 'exited', KILLED, 'The process ended while no ApplicationMaster was running.');
        }
      }
    });
    if (survivors.length > 0) {
      this.#watch = setInterval(() => this.#look(survivors), WATCH_MS);
    }
    return {
      // Do not report a maximum, so that a job that requests GPUs can also run on a machine without GPUs.
      maximum: {},
      resourceTypes: [...new Set(this.#options.frozen.job.roles.flatMap((role) => Object.keys(askedResources(role))))],
      countsAll: true,
      queue: this.#options.frozen.job.queue,
      survivors: survivors.map(containerOf),
    };
  }

  ask(role: Role, count: number): void {
    this.#wanted.set(role.name, { role, count });
    // Allocate asynchronously: the caller is still handling the event that caused the request.
    this.#allocating ??= setImmediate(() => this.#allocate());
  }

  #allocate(): void {
    this.#allocating = null;
    if (this.#closed) {
      return;
    }
    const containers: Container[] = [];
    for (const { role, count } of this.#wanted.values()) {
      for (let at = 0; at < count; at++) {
        this.#sequence++;
        const application = this.#options.frozen.jobId.replace(/^[a-z]+_/, '');
        const id = `container_${application}_${padded(this.#options.attempt, 2)}_${padded(this.#sequence, 6)}`;
        containers.push({ id, role: role.name, node: NODE, nodeHttp: '', memoryMb: role.resources.memoryMb });
      }
    }
    this.#wanted.clear();
    for (const container of containers) {
      this.#allocated.set(container.id, container);
    }
    if (containers.length > 0) {
      this.#options.listener.allocated(containers);
    }
  }

  release(containerId: string): void {
    if (this.#allocated.delete(containerId)) {
      setImmediate(() => void this.#ended(containerId, 'released', ABORTED, 'The container was released.'));
    }
  }

  launch(containerId: string, specification: LaunchSpecification): void {
    const container = this.#allocated.get(containerId);
    if (container === undefined) {
      return;
    }
    this.#launch(container, specification).catch((error: unknown) => {
      this.#allocated.delete(containerId);
      if (!this.#closed) {
        this.#options.listener.launchFailed(containerId, messageOf(error));
      }
    });
  }

  async #launch(container: Container, specification: LaunchSpecification): Promise<void> {
    const folder = path.join(this.#directory, container.id);
    const [work, logs] = [path.join(folder, 'work'), path.join(folder, 'logs')];
    await mkdir(work, { recursive: true, mode: 0o700 });
    await mkdir(logs, { recursive: true, mode: 0o700 });
    const credentials = path.join(work, 'container_tokens');
    const secrets = new Map([...specification.secrets].map(([name, bytes]) => [name, new Secret(bytes)]));
    await Promise.all([
      writeFile(credentials, encodeCredentials({ tokens: [], secrets }), { mode: 0o600 }),
      symlink(fileURLToPath(joinUri(this.#options.frozen.staging, CONTAINER_LAYOUT.job)), path.join(work, CONTAINER_LAYOUT.job)),
      ...[...this.#options.frozen.resources, ...(this.#options.frozen.roleResources[container.role] ?? [])].map(async ({ uri, name }) => {
        await mkdir(path.dirname(path.join(work, name)), { recursive: true, mode: 0o700 });
        await symlink(fileURLToPath(uri), path.join(work, name));
      }),
    ]);
    if (!this.#allocated.has(container.id) || this.#closed) {
      return;
    }
    const log = await open(path.join(logs, 'tony.log'), 'a', 0o600);
    let child: ChildProcess;
    try {
      child = spawn('/bin/bash', ['-c', `exec ${specification.command}`], {
        cwd: work,
        detached: true,
        stdio: ['ignore', log.fd, log.fd],
        env: {
          ...process.env,
          ...specification.environment,
          CONTAINER_ID: container.id,
          HADOOP_TOKEN_FILE_LOCATION: credentials,
          LOG_DIRS: logs,
          NM_HOST: this.#options.host,
        },
      });
      // Add this listener before the first await, so that it is called even if the process exits very soon.
      child.once('exit', (code, signal) => this.#exited(container.id, code, signal));
      await once(child, 'spawn');
    } finally {
      await log.close();
    }
    child.unref();
    const pid = child.pid as number;
    const { id, role, memoryMb } = container;
    const record: ContainerRecord = { id, role, memoryMb, pid, startTime: startTimeOf(pid) ?? '' };
    // The process may have exited while its log was being closed.
    if (child.exitCode !== null || child.signalCode !== null) {
      return;
    }
    const stopped = !this.#allocated.delete(id);
    this.#running.set(id, { record, stopped: false, killTimer: null });
    if (stopped || this.#closed) {
      this.stop(id);
    }
    await writeFile(path.join(folder, RECORD), JSON.stringify(record), { mode: 0o600 });
    if (child.exitCode !== null || child.signalCode !== null) {
      await this.#forget(id);
    }
  }

  #exited(containerId: string, code: number | null, signal: NodeJS.Signals | null): void {
    const status = code ?? 128 + (constants.signals[signal ?? 'SIGKILL'] ?? 9);
    this.#allocated.delete(containerId);
    const diagnostics =
      signal === null ? `The container's process exited with ${status}.` : `The container's process was killed by ${signal}.`;
    void this.#ended(containerId, 'exited', status, diagnostics);
  }

  async #ended(containerId: string, end: ContainerEnd, status: number, diagnostics: string): Promise<void> {
    const running = this.#running.get(containerId);
    this.#running.delete(containerId);
    if (running?.killTimer) {
      clearTimeout(running.killTimer);
    }
    if (!this.#closed) {
      if (running?.stopped) {
        this.#options.listener.ended(containerId, 'stopped-by-master', STOPPED_BY_MASTER, 'The container was stopped.');
      } else {
        this.#options.listener.ended(containerId, end, status, diagnostics);
      }
    }
    await this.#forget(containerId);
  }

  async #forget(containerId: string): Promise<void> {
    const clearing = this.#clearAway(containerId);
    this.#clearing.add(clearing);
    await clearing;
    this.#clearing.delete(clearing);
  }

  async #clearAway(containerId: string): Promise<void> {
    const folder = path.join(this.#directory, containerId);
    const work = path.join(folder, 'work');
    const removed = [
      path.join(folder, RECORD),
      path.join(work, 'container_tokens'),
      path.join(work, CONTAINER_LAYOUT.program),
      path.join(work, CONTAINER_LAYOUT.scratch),
      path.join(work, CONTAINER_LAYOUT.temporary),
    ];
    await Promise.all(removed.map((each) => rm(each, { recursive: true, force: true }))).catch((error: unknown) =>
      this.#options.log.warn({ container: containerId, error: messageOf(error) }, 'could not remove the files of a container'),
    );
  }

  stop(containerId: string): void {
    if (this.#allocated.has(containerId)) {
      this.release(containerId);
      return;
    }
    const running = this.#running.get(containerId);
    if (running === undefined || running.stopped) {
      return;
    }
    running.stopped = true;
    signalGroup(running.record.pid, 'SIGTERM');
    running.killTimer = setTimeout(() => signalGroup(running.record.pid, 'SIGKILL'), KILL_AFTER_MS);
  }

  #look(survivors: readonly ContainerRecord[]): void {
    for (const record of survivors) {
      if (this.#running.get(record.id)?.record === record && startTimeOf(record.pid) !== record.startTime) {
        void this.#ended(record.id, 'exited', KILLED, "The container's process ended.");
      }
    }
  }

  async finish(_result: JobResult): Promise<void> {
    for (const id of this.#running.keys()) {
      this.stop(id);
    }
    const deadline = performance.now() + END_MS;
    while (this.#running.size > 0 && performance.now() < deadline) {
      await pause(20);
    }
    if (this.#running.size > 0) {
      this.#options.log.error({ containers: [...this.#running.keys()] }, 'could not kill container processes');
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#watch !== null) {
      clearInterval(this.#watch);
    }
    if (this.#allocating !== null) {
      clearImmediate(this.#allocating);
    }
    for (const { killTimer } of this.#running.values()) {
      if (killTimer !== null) {
        clearTimeout(killTimer);
      }
    }
    // Wait for the removals, because this process exits right afterwards, and removing a job's files may take a long time.
    await Promise.all(this.#clearing);
  }

  /** Reads the records of all containers that are still running or whose exit has not been reported yet. */
  async #records(): Promise<ContainerRecord[]> {
    const names = await readdir(this.#directory).catch(() => []);
    const texts = await Promise.all(names.map((name) => readFile(path.join(this.#directory, name, RECORD), 'utf8').catch(() => null)));
    return texts.flatMap((text) => {
      try {
        return text === null ? [] : [JSON.parse(text) as ContainerRecord];
      } catch {
        // The earlier attempt crashed while writing this record. Ignore the container: its executor exits when the lease expires.
        return [];
      }
    });
  }
}

function containerOf({ id, role, memoryMb }: ContainerRecord): Container {
  return { id, role, node: NODE, nodeHttp: '', memoryMb };
}

function padded(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {}
}

/** Returns a process's start time, or null if the process has exited. */
function startTimeOf(pid: number): string | null {
  const stat = readStat(pid);
  return stat === null || stat.state === 'Z' || stat.state === 'X' ? null : String(stat.startTime);
}
