import { open, readdir, readFile, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { isOver, type JobInfo, jobInfo, unreportedJob } from '../../conf/status/job-info.ts';
import { isEndState, type JobResult, type JobStatus } from '../../conf/status/status.ts';
import { MOST_GRACE_MS } from '../../conf/values/lease.ts';
import { hadoopUser } from '../../hadoop/configuration/configuration.ts';
import { HttpClient } from '../../hadoop/http/http-client.ts';
import { TonyError } from '../../platform/errors.ts';
import { parseJson } from '../../platform/json-value.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { type LocalPaths, localPaths } from '../files/local-layout.ts';
import { orderContainers } from '../job/task-containers.ts';
import { readEvents, readRecord } from '../records/job-record.ts';
import type { LogPiece } from '../records/log-piece.ts';
import { parseFinal, parseLive } from '../records/status-schema.ts';
import { endedStatus, storedStatus } from '../records/stored-status.ts';
import { harmless } from '../terminal/terminal.ts';
import type { JobConnection, KillReason, LogSource } from './job-connection.ts';
import { readOutput } from './job-output-file.ts';
import type { JobRecords } from './job-records.ts';

const logLine = z.object({
  msg: z.string().optional(),
  err: z.object({ message: z.string().optional(), code: z.string().optional() }).optional(),
});

const MOST_LINES = 5;
const FULL = /\b(ENOSPC|EDQUOT)\b|STORAGE_FULL/;

/**
 * Explains why a local job's ApplicationMaster exited before the job ended.
 * @param log end of the ApplicationMaster's stderr or structured log
 * @param folder the job's folder
 * @param isFull whether the disk that contains the folder is full
 */
export function explainMasterExit(log: string, folder: string, isFull = false): string {
  if (isFull || FULL.test(log)) {
    return `the disk of ${folder} is full. Free up space there, or set TONY_LOCAL_DIR to a folder with free space, and submit the job again.`;
  }
  const lines = log.trimEnd().split('\n').slice(-MOST_LINES).map(readable);
  return lines.join('\n') === '' ? '' : `its last output:\n${lines.join('\n')}`;
}

function readable(line: string): string {
  const { msg, err } = logLine.safeParse(parseJson(line)).data ?? {};
  const parts = [msg, err?.message].filter((part) => part !== undefined && part !== '');
  return harmless(parts.length === 0 ? line : parts.join(': '));
}

const ANSWER_MS = 5_000;
const MAXIMUM_ANSWER_BYTES = 64 << 20;
/** How long (ms) to wait for a killed job to end. The ApplicationMaster stops the programs before it exits, which may have grace periods. */
const KILL_MS = 30_000 + MOST_GRACE_MS;
/** Time limit (ms) for an ApplicationMaster attempt to appear if the process that starts the attempts is not running or not known yet. */
const START_MS = 1_000;
/** Time limit (ms) for an ApplicationMaster attempt to appear while the process that starts the attempts is running. */
const RESTART_MS = 10_000;
/** Time limit (ms) for a new ApplicationMaster to accept requests. */
const LISTENING_MS = 10_000;
const LOG_PIECE = 1 << 20;

interface MasterAddress {
  readonly http: string;
  readonly token: string;
  readonly pid: number;
}

/** Connection to a local job. Reads the job's files and sends requests to its ApplicationMaster. */
export class LocalJob implements JobConnection {
  readonly id: string;
  readonly trackingUrl = null;
  readonly records: JobRecords;
  readonly #paths: LocalPaths;
  /** The global `fetch` would load a large library on its first call. */
  readonly #http = new HttpClient();
  #last: JobStatus | null = null;

  constructor(jobId: string, root: string) {
    this.id = jobId;
    this.#paths = localPaths(root, jobId);
    this.records = this.#records();
  }

  async observe(): Promise<JobInfo> {
    const final = await this.#final();
    if (final !== null) {
      // The ApplicationMaster reads its credentials file only when it starts, so the file can be removed now.
      await rm(join(this.#paths.work(this.#paths.masterContainer(1)), 'credentials'), { force: true });
      return jobInfo(final);
    }
    const live = await this.#status();
    if (live !== null) {
      this.#last = live;
      return this.#info(live);
    }
    if (await this.#masterLives()) {
      this.#last ??= await this.#recorded();
      return this.#last === null ? unreportedJob({ id: this.id, state: 'starting' }) : this.#info(this.#last);
    }
    // The job may have ended after the first check.
    const late = await this.#final();
    if (late !== null) {
      return jobInfo(late);
    }
    await this.mustExist();
    const result = await this.#masterDied();
    return this.#last === null ? unreportedJob({ id: this.id, ...result }) : jobInfo(endedStatus(this.#last, result, null));
  }

  async pages(): Promise<string | null> {
    const address = (await this.#final()) === null ? await this.#address() : null;
    return address && `${address.http}/?token=${address.token}`;
  }

  async kill(by: KillReason = 'order'): Promise<boolean> {
    if (isOver(await this.observe())) {
      return false;
    }
    const started = performance.now();
    let signalled: number | null = null;
    while (!isOver(await this.observe())) {
      const pid = await this.#masterPid();
      const waited = performance.now() - started;
      if (waited > KILL_MS) {
        throw new TonyError('KILL_FAILED', `${this.id} did not end within ${KILL_MS / 1000} s after the kill request.`, {
          hint: `Kill its ApplicationMaster (process ${pid}) manually.`,
        });
      }
      // Signal a new ApplicationMaster only after it has installed its signal handler. An earlier signal would kill the ApplicationMaster,
      // and its next attempt would continue the job.
      const listens = (await this.#address())?.pid === pid || waited > LISTENING_MS;
      if (pid !== null && pid !== signalled && listens) {
        // If the ApplicationMaster has just exited, the next observation contains the result.
        if (isAlive(pid)) {
          process.kill(pid, by === 'interrupt' ? 'SIGINT' : 'SIGTERM');
        }
        signalled = pid;
      }
      await delay(50);
    }
    return true;
  }

  async logs(): Promise<LogSource[]> {
    await this.mustExist();
    const { tasks } = await this.observe();
    const { entries } = await readEvents(this.records.storage, fileUri(this.#paths.history));
    const existing = new Set(await readdir(this.#paths.containers).catch(() => []));
    const masters = this.#paths.masterContainers.map((containerId) => ({ task: 'master', containerId }));
    const sources = [...masters, ...orderContainers(tasks, entries)].filter(({ containerId }) => existing.has(containerId));
    return sources.map(({ task, containerId }) => ({
      task,
      containerId,
      read: (file, from) => readPiece(join(this.#paths.logs(containerId), file), from),
    }));
  }

  get outputUri(): string {
    return fileUri(this.#paths.output);
  }

  async output(name: string, maxBytes: number): Promise<Buffer | null> {
    const file = join(this.#paths.output, name);
    return readOutput(this.records.storage, fileUri(file), maxBytes, file);
  }

  close(): void {
    this.#http.close();
    this.records.storage.close();
  }

  #records(): JobRecords {
    const { job, history, containers } = this.#paths;
    return {
      storage: new FileStorage(),
      user: hadoopUser(),
      place: async () => {
        const found = await stat(history).catch(() => null);
        return found && { jobId: this.id, user: hadoopUser(), folder: fileUri(history) };
      },
      staged: () => fileUri(job),
      ask: (resource) => this.#ask(resource),
      yarn: async () => null,
      logs: async () => fileUri(containers),
      mayRead: async () => true,
    };
  }

  /** Returns a job whose ApplicationMaster has reported this status. A job that is about to end has not stored its final status yet. */
  #info(status: JobStatus): JobInfo {
    return jobInfo(isEndState(status.state) ? { ...status, state: 'running' } : status);
  }

  async #final(): Promise<JobStatus | null> {
    const final = parseFinal(await readText(join(this.#paths.history, 'final.json')), this.id);
    return final === 'damaged' ? null : final;
  }

  /** Returns the last state that a running job recorded, or null if there is none. Used if its ApplicationMaster does not respond. */
  async #recorded(): Promise<JobStatus | null> {
    const place = { jobId: this.id, user: this.records.user, folder: fileUri(this.#paths.history) };
    const record = await readRecord(this.records.storage, place, true).catch(() => null);
    const first = record?.entries[0];
    return record === null || first === undefined
      ? null
      : storedStatus(record, { name: '', queue: '', startedAt: first.at, finishedAt: null, result: null });
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
    return answer === null ? null : parseLive(answer, this.id);
  }

  async #ask(resource: string): Promise<unknown> {
    const address = await this.#address();
    if (address === null) {
      return null;
    }
    try {
      const { status, body } = await this.#http.fetch(
        {
          method: 'GET',
          url: new URL(`${address.http}/tony/api/v1/${resource}`),
          headers: { authorization: `Bearer ${address.token}` },
          idleTimeoutMs: ANSWER_MS,
        },
        { maximumBytes: MAXIMUM_ANSWER_BYTES },
      );
      return status === 200 ? parseJson(body.toString('utf8')) : null;
    } catch {
      return null;
    }
  }

  /** Returns the process ID of the running ApplicationMaster, or null if none is running. */
  async #masterPid(): Promise<number | null> {
    const [pid] = await this.#pids();
    return (await this.#isMaster(pid)) ? (pid ?? null) : null;
  }

  /** Returns true if the process is this job's ApplicationMaster. The check is necessary because operating systems reuse process IDs. */
  async #isMaster(pid: number | undefined): Promise<boolean> {
    if (!isAlive(pid)) {
      return false;
    }
    const environment = await readText(`/proc/${pid}/environ`);
    if (environment !== '') {
      const variables = environment.split('\0');
      return this.#paths.masterContainers.some((containerId) => variables.includes(`CONTAINER_ID=${containerId}`));
    }
    // On systems without /proc, check whether the ApplicationMaster accepts this job's token.
    return (await this.#status()) !== null;
  }

  async #pids(): Promise<(number | undefined)[]> {
    return (await readText(this.#paths.masterPid)).split(' ').map(Number);
  }

  /** Returns true if an ApplicationMaster is running. If one is starting, waits for it. */
  async #masterLives(): Promise<boolean> {
    for (const began = performance.now(); ; await delay(50)) {
      // Read both process IDs at once, because the process that starts the attempts may exit between two separate reads.
      const [pid, starter] = await this.#pids();
      if (await this.#isMaster(pid)) {
        return true;
      }
      if (performance.now() - began > (isAlive(starter) ? RESTART_MS : START_MS)) {
        return false;
      }
    }
  }

  /** @throws TonyError JOB_NOT_FOUND if the job has neither files nor a history. */
  async mustExist(): Promise<void> {
    if ((await readText(join(this.#paths.job, 'job.json'))) === '' && (await this.#final()) === null) {
      throw new TonyError('JOB_NOT_FOUND', `The local job ${this.id} does not exist in ${this.#paths.job}.`, {
        hint: '`tony-ts list --local --all` lists the jobs on this machine. tony-ts removes old local jobs.',
      });
    }
  }

  async #masterDied(): Promise<JobResult> {
    const logs = this.#paths.logs((await startedMasters(this.#paths)).at(-1) ?? this.#paths.masterContainer(1));
    const log = (await readText(join(logs, 'stderr'))) || (await readText(join(logs, 'tony.log')));
    const words = explainMasterExit(log, this.#paths.job, await isFull(this.#paths.job));
    return {
      state: 'failed',
      message: `The ApplicationMaster exited before the job ended${words === '' ? '.' : `; ${words}`}\nSee tony-ts logs ${this.id} master.`,
    };
  }
}

/** Returns the ApplicationMaster's containers, one for each attempt that has started. */
export async function startedMasters({ containers, masterContainers }: LocalPaths): Promise<string[]> {
  const existing = new Set(await readdir(containers).catch(() => []));
  return masterContainers.filter((containerId) => existing.has(containerId));
}

function isAlive(pid: number | undefined): pid is number {
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

/** Returns true if the disk that contains the folder is full. On a full disk, the ApplicationMaster cannot write its error to the log. */
async function isFull(folder: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize < 64 * 1024;
  } catch {
    return false;
  }
}

/** Reads at most 1 MiB of a file, either starting at an offset or only the last `tail` bytes. Returns null if the file does not exist. */
export async function readPiece(file: string, from: { readonly offset: number } | { readonly tail: number }): Promise<LogPiece | null> {
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
