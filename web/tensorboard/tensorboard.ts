import { type ChildProcess, spawn } from 'node:child_process';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { TensorBoardStatus } from '../../conf/status/status.ts';
import { backoffMs, pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { findPythons, ISOLATION, type Python } from '../../platform/python-interpreters.ts';
import { readPackages } from '../../platform/python-packages.ts';
import type { Storage } from '../../storage/storage.ts';
import { parseUri } from '../../storage/uri.ts';
import { Mirror } from './mirror.ts';

/** The build places a copy of the script next to every bundle that includes this file. */
const SCRIPT = fileURLToPath(new URL('./tensorboard-server.py', import.meta.url));
const MAX_LINE = 2_000;
const KEPT_ENVIRONMENT = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH'];

interface ServerProcessOptions {
  readonly python: Python;
  readonly folder: string;
  /** The socket's path as the TensorBoard process sees it. */
  readonly socket: string;
  readonly logs: string;
  readonly log: Logger;
}

interface ServerEnd {
  /** For example `TensorBoard was stopped: it did not answer for 120 s.` */
  readonly message: string;
  /** The reason why Python cannot import TensorBoard, or null if it can. */
  readonly missing: string | null;
}

/** A Python process that serves TensorBoard. The process exits when its standard input closes, so it never outlives its parent. */
class ServerProcess {
  /** Resolves to true once TensorBoard is listening, or to false if the process exits first. */
  readonly ready: Promise<boolean>;
  readonly ended: Promise<ServerEnd>;
  readonly #child: ChildProcess;
  #reason = '';
  #missing: string | null = null;
  #lastLine = '';

  constructor(options: ServerProcessOptions) {
    const { python, folder, socket, logs, log } = options;
    const flags = [
      `--logdir=${logs}`,
      // The fast loader is a separate process. It listens on a port to which every user on the machine can connect.
      '--load_fast=false',
      // A restarted run continues in a new file. The new name may sort before the old name, because the nodes' clocks differ.
      '--reload_multifile=true',
      // Keeps reading growing files regardless of how old their events are.
      '--reload_multifile_inactive_secs=-1',
      '--reload_interval=3',
    ];
    const request = JSON.stringify({ packages: python.packages, socket, flags });
    this.#child = spawn(python.command, [...ISOLATION, '-X', `pycache_prefix=${path.join(folder, 'bytecode')}`, SCRIPT, request], {
      cwd: folder,
      env: environment(),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stdin?.on('error', () => {});
    this.ready = new Promise((resolve) => {
      this.#lines(this.#child.stdout, (line) => {
        const message = parse(line);
        if (typeof message.missing === 'string') {
          this.#missing = message.missing;
        }
        if (message.ready === true) {
          resolve(true);
        }
      });
      this.#child.once('close', () => resolve(false)).once('error', () => resolve(false));
    });
    this.#lines(this.#child.stderr, (line) => {
      this.#lastLine = line;
      log.info({ from: 'python' }, line);
    });
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => resolve({ message: `TensorBoard could not be started: ${messageOf(error)}.`, missing: null }));
      this.#child.once('close', (code, signal) => resolve({ message: this.#endMessage(code, signal), missing: this.#missing }));
    });
  }

  kill(reason = ''): void {
    this.#reason ||= reason;
    this.#child.kill('SIGKILL');
  }

  #endMessage(code: number | null, signal: NodeJS.Signals | null): string {
    if (this.#reason !== '') {
      return `TensorBoard was stopped: ${this.#reason}.`;
    }
    if (signal !== null) {
      return `TensorBoard was killed by ${signal}.`;
    }
    return `TensorBoard exited with code ${code}${this.#lastLine === '' ? '' : `: ${this.#lastLine}`}.`;
  }

  #lines(stream: Readable | null, take: (line: string) => void): void {
    if (stream === null) {
      return;
    }
    createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on('line', (line) => {
      if (line.trim() !== '') {
        take(line.slice(0, MAX_LINE));
      }
    });
  }
}

function environment(): Record<string, string> {
  const kept = KEPT_ENVIRONMENT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]));
  // TensorBoard does not multiply matrices, so additional threads would only use memory.
  return { ...Object.fromEntries(kept), OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1', PYTHONUNBUFFERED: '1' };
}

function parse(line: string): { readonly ready?: unknown; readonly missing?: unknown } {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** How long TensorBoard may take to start, in ms. The first start may load its modules from a slow disk. */
const START_MS = 180_000;
/**
 * How long to wait for the first copy before starting TensorBoard, in ms. TensorBoard's page requests the list of runs only once, so the
 * runs must exist by then.
 */
const FIRST_COPY_MS = 20_000;
/** The pause between two liveness probes and the deadline for a probe, in ms. TensorBoard may respond slowly while it reads a large run. */
const PROBE_PAUSE_MS = 15_000;
const PROBE_MS = 120_000;
const BACKOFF = { firstMs: 1_000, mostMs: 60_000 };
/** The backoff is reset once a process has run for this long, in ms. */
const STEADY_MS = 120_000;
/**
 * The minimum time in ms between two restarts due to replaced files. More frequent restarts would make TensorBoard unavailable for too
 * long.
 */
const RESTART_PAUSE_MS = 60_000;
const SOCKET = 'tensorboard.sock';

export interface TensorBoardOptions {
  /** The folder with TensorBoard's Python packages (packages.ts). */
  readonly packages: string;
  /** The URI of the summary folder, which may not exist yet. */
  readonly summaryDir: string;
  readonly storage: Storage;
  /** The absolute path of a private folder. The folder is created with mode 0700, and removed when TensorBoard is closed. */
  readonly folder: string;
  /** The maximum size in bytes of the local copy of the summaries; 16 GiB by default. */
  readonly copyBytes?: number;
  readonly log: Logger;

  readonly onStatus?: (status: TensorBoardStatus) => void;
}

/**
 * Keeps a TensorBoard process running on a copy of the summaries. TensorBoard listens on a Unix socket in a private folder that only this
 * user can access. The caller must authorise all other access.
 */
export class TensorBoard {
  readonly #options: TensorBoardOptions;
  readonly #directory: FileHandle;
  readonly #mirror: Mirror | null;
  readonly #closing = new AbortController();
  #state: TensorBoardStatus = { state: 'starting', message: 'TensorBoard is starting.' };

  #server: ServerProcess | null = null;
  #running: Promise<void> | null = null;
  #restartAt = 0;
  #restart: NodeJS.Timeout | null = null;

  private constructor(options: TensorBoardOptions, directory: FileHandle) {
    this.#options = options;
    this.#directory = directory;
    // Summaries on a local disk need no copy.
    this.#mirror =
      parseUri(options.summaryDir).scheme === 'file'
        ? null
        : new Mirror({
            storage: options.storage,
            source: options.summaryDir,
            folder: path.join(options.folder, 'summaries'),
            log: options.log,
            ...(options.copyBytes !== undefined && { limits: { bytes: options.copyBytes } }),
            onReplaced: () => this.#restartSoon(),
          });
  }

  /**
   * Starts TensorBoard in the background and resolves before TensorBoard is ready (see `status`).
   * @throws if the folder cannot be created.
   */
  static async start(options: TensorBoardOptions): Promise<TensorBoard> {
    await rm(options.folder, { recursive: true, force: true });
    await mkdir(path.join(options.folder, 'summaries'), { recursive: true, mode: 0o700 });
    const tensorBoard = new TensorBoard(options, await open(options.folder, 'r'));
    tensorBoard.#running = tensorBoard.#run();
    return tensorBoard;
  }

  status(): TensorBoardStatus {
    const problem = this.#mirror?.problem ?? '';
    return this.#state.state === 'ready' && problem !== '' ? { state: 'ready', message: problem } : this.#state;
  }

  /**
   * Connects to TensorBoard's HTTP server. If the connection fails, the socket emits `error`.
   * @throws TonyError TENSORBOARD_UNAVAILABLE unless TensorBoard is ready.
   */
  connect(): Socket {
    const { state, message } = this.#state;
    if (state !== 'ready') {
      throw new TonyError('TENSORBOARD_UNAVAILABLE', message);
    }
    // A Unix socket's path is limited to 107 bytes, and the folder's path may be longer.
    return connect({ path: `/proc/self/fd/${this.#directory.fd}/${SOCKET}` });
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) {
      return;
    }
    this.#closing.abort();
    if (this.#restart !== null) {
      clearTimeout(this.#restart);
    }
    this.#server?.kill();
    await Promise.all([this.#running, this.#mirror?.close()]);
    await this.#directory.close();
    await rm(this.#options.folder, { recursive: true, force: true });
  }

  #become(state: TensorBoardStatus['state'], message = ''): void {
    const before = this.#state;
    this.#state = { state, message };
    if (before.state === state && before.message === message) {
      return;
    }
    this.#options.log.info({ state }, message === '' ? `TensorBoard is ${state}` : message);
    this.#options.onStatus?.(this.#state);
  }

  async #run(): Promise<void> {
    try {
      const packages = (await readPackages(this.#options.packages)) ?? 'The job does not include TensorBoard.';
      const pythons = typeof packages === 'string' ? packages : await findPythons(packages);
      if (typeof pythons === 'string') {
        this.#become('unavailable', pythons);
      } else {
        this.#mirror?.start();
        await Promise.race([this.#mirror?.initialCopy, pause(FIRST_COPY_MS, this.#closing.signal)]);
        await this.#keepRunning(pythons);
      }
    } catch (error) {
      this.#options.log.error({ error: messageOf(error) }, 'TensorBoard failed and will not be restarted');
      this.#become('unavailable', `TensorBoard failed and will not be restarted: ${messageOf(error)}`);
    }
  }

  async #keepRunning(pythons: readonly Python[]): Promise<void> {
    const { signal } = this.#closing;
    const candidates = [...pythons];
    let failures = 0;
    while (!signal.aborted) {
      const [python] = candidates;
      if (python === undefined) {
        throw new TonyError('INTERNAL', 'no other Python interpreter is available');
      }
      const startedAt = performance.now();
      const end = await this.#serve(python);
      if (signal.aborted) {
        return;
      }
      if (end.missing !== null) {
        candidates.shift();
        this.#options.log.warn({ python: python.command }, `TensorBoard cannot be imported: ${end.missing}`);
        if (candidates.length > 0) {
          continue;
        }
        await this.#mirror?.close();
        this.#become('unavailable', `TensorBoard does not run with ${python.command}: ${end.missing}`);
        return;
      }
      failures = performance.now() - startedAt > STEADY_MS ? 1 : failures + 1;
      const pauseMs = backoffMs(failures, BACKOFF);
      this.#become('starting', `${end.message} It will be restarted in ${Math.round(pauseMs / 1000)} s.`);
      await pause(pauseMs, signal);
    }
  }

  async #serve(python: Python): Promise<ServerEnd> {
    const { folder, log } = this.#options;
    const logs = this.#mirror === null ? fileURLToPath(this.#options.summaryDir) : path.join(folder, 'summaries');
    await rm(path.join(folder, SOCKET), { force: true });
    const server = new ServerProcess({ python, folder, socket: `/proc/self/cwd/${SOCKET}`, logs, log });
    this.#server = server;
    if (this.#closing.signal.aborted) {
      server.kill();
    }
    const late = setTimeout(() => server.kill('it did not start in time'), START_MS);
    const ready = await server.ready;
    clearTimeout(late);
    if (ready) {
      this.#become('ready');
      void this.#watch(server);
    }
    const end = await server.ended;
    this.#server = null;
    return end;
  }

  /** Kills an unresponsive process, so that `#keepRunning` restarts it. */
  async #watch(server: ServerProcess): Promise<void> {
    const { signal } = this.#closing;
    while (this.#server === server && !signal.aborted) {
      await pause(PROBE_PAUSE_MS, signal);
      if (this.#server !== server || signal.aborted) {
        return;
      }
      if (!(await this.#answers())) {
        if (this.#server === server) {
          server.kill(`it did not answer for ${PROBE_MS / 1000} s`);
        }
        return;
      }
    }
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect({ path: `/proc/self/fd/${this.#directory.fd}/${SOCKET}` });
      const end = (answer: boolean): void => {
        clearTimeout(timer);
        socket.destroy();
        resolve(answer);
      };
      const timer = setTimeout(() => end(false), PROBE_MS);
      // A closed connection means that the process has exited, which `#serve` handles.
      socket.on('error', () => end(true)).on('close', () => end(true));
      socket.on('data', () => end(true));
      socket.write('GET /data/environment HTTP/1.1\r\nHost: tensorboard\r\nConnection: close\r\n\r\n');
    });
  }

  /** Restarts TensorBoard after a file was replaced, because TensorBoard would otherwise continue at its old position in the new file. */
  #restartSoon(): void {
    if (this.#restart !== null || this.#closing.signal.aborted) {
      return;
    }
    const wait = Math.max(1_000, this.#restartAt - performance.now());
    this.#restart = setTimeout(() => {
      this.#restart = null;
      this.#restartAt = performance.now() + RESTART_PAUSE_MS;
      this.#server?.kill('its event files were replaced');
    }, wait);
  }
}
