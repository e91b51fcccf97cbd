import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { messageOf } from '../../conf/errors.ts';
import type { Logger } from '../../conf/log.ts';
import type { TensorBoardStatus } from '../../conf/status.ts';
import type { TensorBoardTarget } from '../../web/tensorboard-target.ts';

/** Each takes some hundred megabytes. */
const MOST = 3;
/** One that nobody has looked at for so long ends; another may take its place after a shorter while. */
const IDLE_MS = 10 * 60_000;
const SPARE_MS = 60_000;
const LOOK_MS = 15_000;

/** A TensorBoard that runs. */
export interface RunningTensorBoard {
  status(): TensorBoardStatus;
  connect(): Duplex;
  close(): Promise<void>;
}

export interface TensorBoardPoolOptions {
  /** Starts one over the summaries, with a folder of its own for what it needs. */
  readonly start: (options: { readonly summaryDir: string; readonly folder: string }) => Promise<RunningTensorBoard>;
  /** Absolute path of a folder under which each gets its own. */
  readonly folder: string;
  readonly log: Logger;
  readonly most?: number;
  readonly now?: () => number;
}

interface Slot {
  readonly running: Promise<RunningTensorBoard>;
  ready: RunningTensorBoard | null;
  /** Why it could not be started; empty otherwise. */
  failure: string;
  usedAt: number;
}

/** A TensorBoard for each job that somebody looks at, a few at a time. */
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

  /** Starts one for these summaries unless it is there, and notes that it is looked at. A sentence says why it cannot be. */
  wake(summaryDir: string): string {
    if (this.#closed) return 'The server is ending.';
    const known = this.#slots.get(summaryDir);
    if (known !== undefined && known.failure === '') {
      known.usedAt = this.#now();
      return '';
    }
    const taken = [...this.#slots].filter(([, { failure }]) => failure === '').sort(([, a], [, b]) => a.usedAt - b.usedAt);
    if (taken.length >= (this.#options.most ?? MOST)) {
      const [oldest] = taken;
      if (oldest === undefined || this.#now() - oldest[1].usedAt < SPARE_MS) {
        return `${taken.length} TensorBoards are in use, which is as many as run at once here: try again in some minutes.`;
      }
      this.#end(oldest[0]);
    }
    const folder = join(this.#options.folder, `tensorboard-${++this.#started}`);
    const running = this.#options.start({ summaryDir, folder });
    const slot: Slot = { running, ready: null, failure: '', usedAt: this.#now() };
    this.#slots.set(summaryDir, slot);
    running.then(
      (ready) => {
        slot.ready = ready;
      },
      (error: unknown) => {
        slot.failure = messageOf(error);
        this.#options.log.warn({ error: slot.failure }, 'TensorBoard could not be started');
      },
    );
    return '';
  }

  status(summaryDir: string): TensorBoardStatus {
    const slot = this.#slots.get(summaryDir);
    if (slot === undefined) return { state: 'waiting', message: 'TensorBoard starts when it is opened.' };
    if (slot.failure !== '') return { state: 'unavailable', message: slot.failure };
    return slot.ready?.status() ?? { state: 'starting', message: 'TensorBoard is starting.' };
  }

  /** Null while there is none that answers. */
  connect(summaryDir: string): (() => Duplex) | null {
    const slot = this.#slots.get(summaryDir);
    const ready = slot?.ready ?? null;
    if (slot === undefined || ready === null || ready.status().state !== 'ready') return null;
    return () => {
      slot.usedAt = this.#now();
      return ready.connect();
    };
  }

  /** Ends those that nobody has looked at for long. */
  endIdle(): void {
    for (const [summaryDir, { usedAt }] of this.#slots) if (this.#now() - usedAt > IDLE_MS) this.#end(summaryDir);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    for (const summaryDir of this.#slots.keys()) this.#end(summaryDir);
    // Those too that were ending already.
    await Promise.all(this.#endings);
  }

  #end(summaryDir: string): void {
    const slot = this.#slots.get(summaryDir);
    this.#slots.delete(summaryDir);
    const ending = (async () => (await slot?.running)?.close())()
      .catch((error: unknown) => void this.#options.log.warn({ error: messageOf(error) }, 'TensorBoard could not be ended'))
      .finally(() => this.#endings.delete(ending));
    this.#endings.add(ending);
  }
}

/** The TensorBoard of one job, which starts when somebody opens it. */
export class PooledTensorBoard implements TensorBoardTarget {
  readonly #pool: TensorBoardPool;
  #summaryDir: string | null = null;
  #refusal: TensorBoardStatus | null = { state: 'waiting', message: 'TensorBoard starts when it is opened.' };

  constructor(pool: TensorBoardPool) {
    this.#pool = pool;
  }

  /** Somebody looks. */
  wake(summaryDir: string): void {
    this.#summaryDir = summaryDir;
    const why = this.#pool.wake(summaryDir);
    this.#refusal = why === '' ? null : { state: 'waiting', message: why };
  }

  /** It has been started, and may be there already. */
  get isAwake(): boolean {
    return this.#summaryDir !== null && this.#refusal === null;
  }

  /** There is nothing for it to show. */
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
