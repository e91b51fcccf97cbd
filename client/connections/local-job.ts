import { open, readdir, readFile, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { JobResult, JobStatus } from '../../conf/status.ts';
import { hadoopUser } from '../../hadoop/configuration/configuration.ts';
import { TonyError } from '../../platform/errors.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { LOCAL_ATTEMPTS, type LocalPaths, localPaths } from '../files/local-layout.ts';
import { orderContainers } from '../job/task-containers.ts';
import { readEvents } from '../records/job-record.ts';
import type { LogPiece } from '../records/log-piece.ts';
import type { JobConnection, KillReason, LogSource, Observation } from './job-connection.ts';
import { tooLarge } from './job-output-file.ts';
import type { JobRecords } from './job-records.ts';
import { checkedStatus, parseJobStatus } from './job-status.ts';
import { lastWords } from './last-words.ts';

const ANSWER_MS = 5_000;
/** How long a killed job may take to end (ms): its ApplicationMaster ends the programs first. */
const KILL_MS = 30_000;
/** Maximum time between the creation of the job's folder and the start of its ApplicationMaster. */
const START_MS = 1_000;
/** Maximum time for the next attempt to start on a busy machine, while the process that starts it is alive. */
const RESTART_MS = 10_000;
/** Maximum startup time of an ApplicationMaster. */
const LISTENING_MS = 10_000;
const LOG_PIECE = 1 << 20;

interface MasterAddress {
  readonly http: string;
  readonly token: string;
  readonly pid: number;
}

/** A local job, observed through its files and its ApplicationMaster's answers. */
export class LocalJob implements JobConnection {
  readonly applicationId: string;
  readonly trackingUrl = null;
  readonly records: JobRecords;
  readonly #paths: LocalPaths;
  #last: JobStatus | null = null;

  constructor(applicationId: string, root: string) {
    this.applicationId = applicationId;
    this.#paths = localPaths(root, applicationId);
    this.records = this.#records();
  }

  async observe(): Promise<Observation> {
    const final = await this.#final();
    if (final !== null) {
      // The ApplicationMaster read this file when it started and no longer needs it.
      await rm(join(this.#paths.work(this.#paths.masterContainer(1)), 'credentials'), { force: true });
      return ended(final);
    }
    const live = await this.#status();
    if (live !== null) {
      this.#last = live;
      return { phase: live.state, waiting: '', status: live, masterSilentMs: null, result: null };
    }
    if (await this.#masterLives()) {
      return { phase: 'STARTING', waiting: '', status: this.#last, masterSilentMs: null, result: null };
    }
    // The job may have ended between the two checks.
    const late = await this.#final();
    if (late !== null) {
      return ended(late);
    }
    await this.mustExist();
    return { phase: 'FAILED', waiting: '', status: this.#last, masterSilentMs: null, result: await this.#masterDied() };
  }

  async pages(): Promise<string | null> {
    const address = (await this.#final()) === null ? await this.#address() : null;
    return address && `${address.http}/?token=${address.token}`;
  }

  async kill(by: KillReason = 'order'): Promise<boolean> {
    const { result } = await this.observe();
    if (result !== null) {
      return false;
    }
    const started = performance.now();
    let told: number | null = null;
    while ((await this.observe()).result === null) {
      const pid = await this.#masterPid();
      const waited = performance.now() - started;
      if (waited > KILL_MS) {
        throw new TonyError('KILL_FAILED', `${this.applicationId} did not end within ${KILL_MS / 1000} s after the kill request.`, {
          hint: `Kill its ApplicationMaster, process ${pid}, by hand.`,
        });
      }
      // A newly started ApplicationMaster has no signal handler yet: a signal would kill it, and another attempt would continue the job.
      const listens = (await this.#address())?.pid === pid || waited > LISTENING_MS;
      if (pid !== null && pid !== told && listens) {
        // If the ApplicationMaster has exited in the meantime, the next observation returns its result.
        if (isThere(pid)) {
          process.kill(pid, by === 'interrupt' ? 'SIGINT' : 'SIGTERM');
        }
        told = pid;
      }
      await delay(50);
    }
    return true;
  }

  async logs(): Promise<LogSource[]> {
    await this.mustExist();
    const { status } = await this.observe();
    const { entries } = await readEvents(this.records.storage, fileUri(this.#paths.history));
    const named = orderContainers(status, entries);
    const there = new Set(await readdir(this.#paths.containers).catch(() => []));
    const sources = named.filter(({ containerId }) => there.has(containerId));
    const masters = this.#masters.filter((containerId) => there.has(containerId)).map((containerId) => ({ task: 'master', containerId }));
    return [...masters, ...sources].map(({ task, containerId }) => ({
      task,
      containerId,
      read: (file, from) => readPiece(join(this.#paths.logs(containerId), file), from),
    }));
  }

  async output(name: string, maxBytes: number): Promise<Buffer | null> {
    const file = join(this.#paths.output, name);
    const size = (await stat(file).catch(() => null))?.size ?? null;
    if (size !== null && size > maxBytes) {
      throw tooLarge(file, size, maxBytes);
    }
    return size === null ? null : readFile(file);
  }

  close(): void {
    this.records.storage.close();
  }

  #records(): JobRecords {
    const { job, history, containers } = this.#paths;
    return {
      storage: new FileStorage(),
      place: async () => {
        const there = await stat(history).catch(() => null);
        return there && { applicationId: this.applicationId, user: hadoopUser(), folder: fileUri(history) };
      },
      staged: () => fileUri(job),
      ask: (resource) => this.#ask(resource),
      yarn: async () => null,
      logs: async () => fileUri(containers),
    };
  }

  async #final(): Promise<JobStatus | null> {
    return parseJobStatus(await readText(join(this.#paths.history, 'final.json')), this.applicationId);
  }

  async #address(): Promise<MasterAddress | null> {
    try {
      const address = JSON.parse(await readFile(this.#paths.masterAddress, 'utf8')) as MasterAddress;
      return typeof address.http === 'string' && typeof address.token === 'string' ? address : null;
    } catch {
      return null;
    }
  }

  async #status(): Promise<JobStatus | null> {
    const answer = await this.#ask('job');
    return answer === null ? null : checkedStatus(answer, this.applicationId);
  }

  /** The ApplicationMaster's answer; null if it does not answer. */
  async #ask(resource: string): Promise<unknown> {
    const address = await this.#address();
    if (address === null) {
      return null;
    }
    try {
      const answer = await fetch(`${address.http}/tony/api/${resource}`, {
        headers: { authorization: `Bearer ${address.token}` },
        signal: AbortSignal.timeout(ANSWER_MS),
        redirect: 'error',
      });
      return answer.ok ? ((await answer.json()) as unknown) : null;
    } catch {
      return null;
    }
  }

  /** The ApplicationMaster's process ID, if it runs. */
  async #masterPid(): Promise<number | null> {
    const [pid] = await this.#pids();
    return (await this.#isMaster(pid)) ? (pid ?? null) : null;
  }

  /** Whether the process is this job's ApplicationMaster. The operating system may have reused the process ID. */
  async #isMaster(pid: number | undefined): Promise<boolean> {
    if (!isThere(pid)) {
      return false;
    }
    const environment = await readText(`/proc/${pid}/environ`);
    if (environment !== '') {
      const variables = environment.split('\0');
      return this.#masters.some((containerId) => variables.includes(`CONTAINER_ID=${containerId}`));
    }
    // On systems without /proc, checks that the ApplicationMaster answers with the job's token.
    return (await this.#status()) !== null;
  }

  /** Container IDs of all possible attempts. */
  get #masters(): string[] {
    return Array.from({ length: LOCAL_ATTEMPTS }, (_, at) => this.#paths.masterContainer(at + 1));
  }

  /** Process IDs of the ApplicationMaster and of the process that would start the next attempt if it is killed. */
  async #pids(): Promise<(number | undefined)[]> {
    return (await readText(this.#paths.masterPid)).split(' ').map(Number);
  }

  /** Whether an ApplicationMaster runs; waits up to the maximum startup time for one to appear. */
  async #masterLives(): Promise<boolean> {
    for (const began = performance.now(); ; await delay(50)) {
      // Reads both IDs at once: between two reads, the starting process could start the ApplicationMaster and exit.
      const [pid, starter] = await this.#pids();
      if (await this.#isMaster(pid)) {
        return true;
      }
      if (performance.now() - began > (isThere(starter) ? RESTART_MS : START_MS)) {
        return false;
      }
    }
  }

  /** @throws TonyError APPLICATION_UNKNOWN if the job has neither files nor a history. */
  async mustExist(): Promise<void> {
    if ((await readText(join(this.#paths.job, 'job.json'))) === '' && (await this.#final()) === null) {
      throw new TonyError('APPLICATION_UNKNOWN', `The local job ${this.applicationId} does not exist in ${this.#paths.job}.`);
    }
  }

  async #masterDied(): Promise<JobResult> {
    const there = new Set(await readdir(this.#paths.containers).catch(() => []));
    const newest = this.#masters.findLast((containerId) => there.has(containerId)) ?? this.#paths.masterContainer(1);
    const logs = this.#paths.logs(newest);
    const log = (await readText(join(logs, 'stderr'))) || (await readText(join(logs, 'tony.log')));
    const words = lastWords(log, this.#paths.job, await isFull(this.#paths.job));
    return {
      state: 'FAILED',
      diagnostics: `The ApplicationMaster exited before the job ended${words === '' ? '.' : `; ${words}`}\nSee tony-ts logs ${this.applicationId} master.`,
    };
  }
}

function isThere(pid: number | undefined): pid is number {
  if (pid === undefined || !Number.isInteger(pid) || pid <= 1) {
    return false;
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Whether the folder's disk is full. A full disk also prevents the log line that would report it. */
async function isFull(folder: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize < 64 * 1024;
  } catch {
    return false;
  }
}

function ended(status: JobStatus): Observation {
  const state = status.state === 'SUCCEEDED' || status.state === 'KILLED' ? status.state : 'FAILED';
  return { phase: state, waiting: '', status, masterSilentMs: null, result: { state, diagnostics: status.message } };
}

async function readPiece(file: string, from: { readonly offset: number } | { readonly tail: number }): Promise<LogPiece | null> {
  const handle = await open(file, 'r').catch(() => null);
  if (handle === null) {
    return null;
  }
  try {
    const { size } = await handle.stat();
    const start = 'offset' in from ? from.offset : Math.max(0, size - from.tail);
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(Math.max(0, Math.min(LOG_PIECE, size - start))), 0, null, start);
    return { bytes: buffer.subarray(0, bytesRead), end: start + bytesRead };
  } finally {
    await handle.close();
  }
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '');
}
