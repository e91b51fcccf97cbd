import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { TensorBoardStatus } from '../../conf/status/status.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { TensorBoardTarget } from '../../web/proxy/tensorboard-target.ts';

/** Maximum number of running TensorBoards. Each one needs several hundred MB of memory. */
const MOST = 3;
/** How long (ms) a TensorBoard may go unused before the server stops it. */
const IDLE_MS = 10 * 60_000;
/** How long (ms) a TensorBoard must go unused before the server may stop it to make room for another job's TensorBoard. */
const SPARE_MS = 60_000;
/**
 * Run time (ms) after which a TensorBoard may be replaced even if it is in use. Without this limit, an open page would keep its TensorBoard
 * running forever by polling.
 */
const TURN_MS = 10 * 60_000;
const LOOK_MS = 15_000;

export interface RunningTensorBoard {
  status(): TensorBoardStatus;
  connect(): Duplex;
  close(): Promise<void>;
}

export interface TensorBoardPoolOptions {
  /** Starts a TensorBoard for `summaryDir`, with `folder` as its working directory. */
  readonly start: (options: { readonly summaryDir: string; readonly folder: string }) => Promise<RunningTensorBoard>;
  readonly folder: string;
  readonly log: Logger;
  readonly most?: number;
  readonly now?: () => number;
}

interface Slot {
  readonly running: Promise<RunningTensorBoard>;
  ready: RunningTensorBoard | null;
  /** Error message if the start failed, or '' otherwise. */
  failure: string;
  usedAt: number;
  readonly startedAt: number;
  readonly visitor: string;
}

/** Runs a TensorBoard for each viewed job, up to a maximum number. */
export class TensorBoardPool {
  readonly #options: TensorBoardPoolOptions;
  readonly #slots = new Map<string, Slot>();
  readonly #timer: NodeJS.Timeout;
  readonly #now: () => number;
  readonly #endings = new Set<Promise<unknown>>();
  #started = 0;
  #closed = false;

  constructor(options: TensorBoardPoolOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#timer = setInterval(() => this.endIdle(), LOOK_MS);
    this.#timer.unref();
  }

  /**
   * Starts a TensorBoard for these summaries unless one is running, and records the access.
   * @param visitor the viewer, whose own TensorBoards are replaced first
   * @returns '', or the reason why no TensorBoard can start
   */
  wake(summaryDir: string, visitor: string): string {
    if (this.#closed) {
      return 'The server is shutting down.';
    }
    const known = this.#slots.get(summaryDir);
    if (known !== undefined && known.failure === '') {
      known.usedAt = this.#now();
      return '';
    }
    const running = [...this.#slots].filter(([, { failure }]) => failure === '');
    if (running.length >= (this.#options.most ?? MOST)) {
      const spared = this.#expendable(running, visitor);
      if (spared === undefined) {
        return `${running.length} TensorBoards are in use, which is the maximum for this server. Try again in a few minutes.`;
      }
      this.#end(spared);
    }
    const folder = join(this.#options.folder, `tensorboard-${++this.#started}`);
    const starting = this.#options.start({ summaryDir, folder });
    const now = this.#now();
    const slot: Slot = { running: starting, ready: null, failure: '', usedAt: now, startedAt: now, visitor };
    this.#slots.set(summaryDir, slot);
    starting.then(
      (ready) => {
        slot.ready = ready;
      },
      (error: unknown) => {
        slot.failure = messageOf(error);
        this.#options.log.warn({ error: slot.failure }, 'could not start TensorBoard');
      },
    );
    return '';
  }

  /**
   * Returns the summary folder of the TensorBoard process to replace, or undefined if none may be replaced. Prefers an idle TensorBoard.
   * Otherwise, chooses one that has run longer than `TURN_MS`, preferably this visitor's.
   */
  #expendable(running: readonly (readonly [string, Slot])[], visitor: string): string | undefined {
    const now = this.#now();
    const idle = running.filter(([, { usedAt }]) => now - usedAt >= SPARE_MS).sort(([, a], [, b]) => a.usedAt - b.usedAt);
    const hadTurn = running.filter(([, { startedAt }]) => now - startedAt >= TURN_MS).sort(([, a], [, b]) => a.startedAt - b.startedAt);
    const found = idle[0] ?? hadTurn.find(([, slot]) => slot.visitor === visitor) ?? hadTurn[0];
    return found?.[0];
  }

  status(summaryDir: string): TensorBoardStatus {
    const slot = this.#slots.get(summaryDir);
    if (slot === undefined) {
      return { state: 'waiting', message: 'TensorBoard starts when you open it.' };
    }
    if (slot.failure !== '') {
      return { state: 'unavailable', message: slot.failure };
    }
    return slot.ready?.status() ?? { state: 'starting', message: 'TensorBoard is starting.' };
  }

  /** Returns a function that connects to the TensorBoard for these summaries, or null while TensorBoard is not ready. */
  connect(summaryDir: string): (() => Duplex) | null {
    const slot = this.#slots.get(summaryDir);
    const ready = slot?.ready ?? null;
    if (slot === undefined || ready === null || ready.status().state !== 'ready') {
      return null;
    }
    return () => {
      slot.usedAt = this.#now();
      return ready.connect();
    };
  }

  endIdle(): void {
    for (const [summaryDir, { usedAt }] of this.#slots) {
      if (this.#now() - usedAt > IDLE_MS) {
        this.#end(summaryDir);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    for (const summaryDir of this.#slots.keys()) {
      this.#end(summaryDir);
    }
    // Also wait for TensorBoards that were already stopping.
    await Promise.all(this.#endings);
  }

  #end(summaryDir: string): void {
    const slot = this.#slots.get(summaryDir);
    this.#slots.delete(summaryDir);
    const ending = (async () => (await slot?.running)?.close())()
      .catch((error: unknown) => void this.#options.log.warn({ error: messageOf(error) }, 'could not stop TensorBoard'))
      .finally(() => this.#endings.delete(ending));
    this.#endings.add(ending);
  }
}

/** TensorBoard for one job. It starts when someone opens it. */
export class PooledTensorBoard implements TensorBoardTarget {
  readonly #pool: TensorBoardPool;
  #summaryDir: string | null = null;
  #refusal: TensorBoardStatus | null = { state: 'waiting', message: 'TensorBoard starts when you open it.' };

  constructor(pool: TensorBoardPool) {
    this.#pool = pool;
  }

  wake(summaryDir: string, visitor: string): void {
    this.#summaryDir = summaryDir;
    const why = this.#pool.wake(summaryDir, visitor);
    this.#refusal = why === '' ? null : { state: 'waiting', message: why };
  }

  /** Whether TensorBoard has been started. It may not be ready yet. */
  get isAwake(): boolean {
    return this.#summaryDir !== null && this.#refusal === null;
  }

  refuse(message: string): void {
    this.#refusal = { state: 'unavailable', message };
  }

  status(): TensorBoardStatus {
    return this.#refusal ?? this.#pool.status(this.#summaryDir ?? '');
  }

  get connect(): (() => Duplex) | null {
    return this.#summaryDir === null || this.#refusal !== null ? null : this.#pool.connect(this.#summaryDir);
  }
}
