import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Logger } from '../../conf/log.ts';
import type { TensorBoardStatus } from '../../conf/status.ts';
import type { Storage } from '../../storage/storage.ts';
import { parseUri } from '../../storage/uri.ts';
import { Mirror } from './mirror.ts';
import { readPackages } from './packages.ts';
import { findPythons, type Python } from './python.ts';
import { ServerProcess } from './server-process.ts';

/** How long TensorBoard may take until it listens: its modules are read from a slow disk once. */
const START_MS = 180_000;
/** How long it waits for a copy of what is there already: its page asks once for that, and would show nothing. */
const FIRST_COPY_MS = 20_000;
/** It is asked whether it still answers, and has so long for it: reading a large run keeps it busy. */
const PROBE_PAUSE_MS = 15_000;
const PROBE_MS = 120_000;
const FIRST_BACK_OFF_MS = 1_000;
const LONGEST_BACK_OFF_MS = 60_000;
/** One that ran for so long was no failed start. */
const STEADY_MS = 120_000;
/** Summaries that are replaced again and again do not keep it from serving. */
const RESTART_PAUSE_MS = 60_000;
const SOCKET = 'tensorboard.sock';

export interface TensorBoardOptions {
  /** Folder with TensorBoard's Python packages (packages.ts). */
  readonly packages: string;
  /** URI; the folder need not be there yet. */
  readonly summaryDir: string;
  readonly storage: Storage;
  /** Absolute path of a folder for this alone; made (0700) when it is not there, removed at the end. */
  readonly folder: string;
  readonly log: Logger;
  /** The one Python to use; by default the newest fitting one on the PATH. */
  readonly python?: string;
  /** Hears of each change. */
  readonly onStatus?: (status: TensorBoardStatus) => void;
}

/**
 * The real TensorBoard, kept running, over a copy of the summaries. It listens on a unix socket in a folder of its own: nobody but this user
 * reaches it, and it is for the caller to say who else may.
 */
export class TensorBoard {
  readonly #options: TensorBoardOptions;
  readonly #directory: FileHandle;
  readonly #mirror: Mirror | null;
  readonly #closing = new AbortController();
  #state: TensorBoardStatus = { state: 'starting', message: 'TensorBoard is starting.' };
  #told = '';
  #server: ServerProcess | null = null;
  #running: Promise<void> | null = null;
  #restartAt = 0;
  #restart: NodeJS.Timeout | null = null;

  private constructor(options: TensorBoardOptions, directory: FileHandle) {
    this.#options = options;
    this.#directory = directory;
    // What lies on this machine's disk needs no copy.
    this.#mirror =
      parseUri(options.summaryDir).scheme === 'file'
        ? null
        : new Mirror({
            storage: options.storage,
            source: options.summaryDir,
            folder: path.join(options.folder, 'summaries'),
            log: options.log,
            onReplaced: () => this.#restartSoon(),
          });
  }

  /** Resolves at once: `status` says when it is there. @throws when the folder cannot be made */
  static async start(options: TensorBoardOptions): Promise<TensorBoard> {
    await rm(options.folder, { recursive: true, force: true });
    await mkdir(path.join(options.folder, 'summaries'), { recursive: true, mode: 0o700 });
    const tensorBoard = new TensorBoard(options, await open(options.folder, 'r'));
    tensorBoard.#running = tensorBoard.#run();
    return tensorBoard;
  }

  status(): TensorBoardStatus {
    const trouble = this.#mirror?.trouble ?? '';
    return this.#state.state === 'ready' && trouble !== '' ? { state: 'ready', message: trouble } : this.#state;
  }

  /**
   * A connection to TensorBoard's HTTP server. Its `error` says when there is none after all.
   * @throws TonyError TENSORBOARD_UNAVAILABLE while it does not listen
   */
  connect(): Socket {
    const { state, message } = this.#state;
    if (state !== 'ready') throw new TonyError('TENSORBOARD_UNAVAILABLE', message);
    // A socket's path may have 107 bytes; a folder's may be longer.
    return connect({ path: `/proc/self/fd/${this.#directory.fd}/${SOCKET}` });
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#server?.kill();
    await Promise.all([this.#running, this.#mirror?.close()]);
    await this.#directory.close();
    await rm(this.#options.folder, { recursive: true, force: true });
  }

  #become(state: TensorBoardStatus['state'], message = ''): void {
    this.#state = { state, message };
    const said = `${state} ${message}`;
    if (said === this.#told) return;
    this.#told = said;
    this.#options.log.info({ state }, message === '' ? `TensorBoard is ${state}` : message);
    this.#options.onStatus?.(this.#state);
  }

  async #run(): Promise<void> {
    try {
      const { packages, python: only } = this.#options;
      const found = await readPackages(packages);
      const pythons = typeof found === 'string' ? found : await findPythons(found, process.env, only);
      if (typeof pythons === 'string') this.#become('unavailable', pythons);
      else {
        this.#mirror?.start();
        await Promise.race([this.#mirror?.firstLook, sleep(FIRST_COPY_MS, this.#closing.signal)]);
        await this.#keepRunning(pythons);
      }
    } catch (error) {
      this.#options.log.error({ error: messageOf(error) }, 'TensorBoard cannot be kept running');
      this.#become('unavailable', `TensorBoard cannot be kept running: ${messageOf(error)}`);
    }
  }

  async #keepRunning(pythons: readonly Python[]): Promise<void> {
    const { signal } = this.#closing;
    const candidates = [...pythons];
    let failures = 0;
    while (!signal.aborted) {
      const [python] = candidates;
      if (python === undefined) throw new TonyError('INTERNAL', 'no Python is left');
      const startedAt = performance.now();
      const end = await this.#serve(python);
      if (signal.aborted) return;
      if (end.missing !== null) {
        candidates.shift();
        this.#options.log.warn({ python: python.command }, `TensorBoard cannot be imported: ${end.missing}`);
        if (candidates.length > 0) continue;
        await this.#mirror?.close();
        this.#become('unavailable', `TensorBoard does not run with ${python.command}: ${end.missing}`);
        return;
      }
      failures = performance.now() - startedAt > STEADY_MS ? 1 : failures + 1;
      const pause = Math.min(LONGEST_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** (failures - 1));
      this.#become('starting', `${end.sentence} It is started again in ${Math.round(pause / 1000)} s.`);
      await sleep(pause, signal);
    }
  }

  /** From start to end of one process. */
  async #serve(python: Python): Promise<{ sentence: string; missing: string | null }> {
    const { folder, log } = this.#options;
    const logs = this.#mirror === null ? fileURLToPath(this.#options.summaryDir) : path.join(folder, 'summaries');
    await rm(path.join(folder, SOCKET), { force: true });
    const server = ServerProcess.start({ python, folder, socket: `/proc/self/cwd/${SOCKET}`, logs, log });
    this.#server = server;
    if (this.#closing.signal.aborted) server.kill();
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

  /** One that hangs is no better than one that has died. */
  async #watch(server: ServerProcess): Promise<void> {
    const { signal } = this.#closing;
    while (this.#server === server && !signal.aborted) {
      await sleep(PROBE_PAUSE_MS, signal);
      if (this.#server !== server || signal.aborted) return;
      if (!(await this.#answers())) {
        if (this.#server === server) server.kill(`it did not answer for ${PROBE_MS / 1000} s`);
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
      // One that has just died is not for this to judge.
      socket.on('error', () => end(true)).on('close', () => end(true));
      socket.on('data', () => end(true));
      socket.write('GET /data/environment HTTP/1.1\r\nHost: tensorboard\r\nConnection: close\r\n\r\n');
    });
  }

  /** It has read what is there no more, and goes on from the same place in another file. */
  #restartSoon(): void {
    if (this.#restart !== null || this.#closing.signal.aborted) return;
    const wait = Math.max(1_000, this.#restartAt - performance.now());
    this.#restart = setTimeout(() => {
      this.#restart = null;
      this.#restartAt = performance.now() + RESTART_PAUSE_MS;
      this.#server?.kill('its event files were replaced');
    }, wait);
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}
