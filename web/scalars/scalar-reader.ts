import { setImmediate as turn } from 'node:timers/promises';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import type { ScalarCharts } from '../job-view.ts';
import { repeatPasses } from '../repeat-passes.ts';
import { MAXIMUM_POINTS } from './curve.ts';
import { RunReader } from './run-reader.ts';

/** How long reading continues after the last request, in ms. */
const VIEWED_WITHIN_MS = 60_000;
const PAUSE_MS = 4_000;
const READING_SHARE = 0.05;
/** The maximum length of a time slice in ms. The reader runs in processes that must also send heartbeats. */
const SLICE_MS = 4;
const MAXIMUM_RUNS = 200;
const MAXIMUM_DEPTH = 8;
const MAXIMUM_FOLDERS = 2_000;
const MAXIMUM_CURVES = 400;
/** The maximum number of points in one response. A point takes about 30 bytes. */
const MAXIMUM_ANSWER_POINTS = 40_000;

export interface ScalarReaderOptions {
  readonly storage: Storage;
  /** The URI of the summary folder. Each folder with event files is a run. */
  readonly dir: string;
  readonly log: Logger;
  /** How long the first response waits for the first pass over the files, in ms; 1000 by default. */
  readonly maxWaitMs?: number;
  /** The pause between two passes, in ms; 4000 by default. Slow passes lengthen the pause to limit reading to 5 % of the time. */
  readonly pauseMs?: number;
  /** Returns the current time in ms since an arbitrary origin. */
  readonly clock?: () => number;
}

interface Run {
  readonly name: string;
  readonly files: readonly Entry[];
}

/**
 * Reads the curves in a job's summaries while the job writes the summaries. The reader is active only while requests arrive. It reads one
 * file at a time, in short time slices, and reads each byte only once.
 */
export class ScalarReader {
  readonly #options: ScalarReaderOptions;
  readonly #clock: () => number;
  readonly #runs = new Map<string, RunReader>();
  readonly #closing = new AbortController();
  #requestedAt = 0;
  #reading: Promise<void> | null = null;
  #firstPass: Promise<void>;
  #endFirstPass: () => void = () => {};
  #sliceBegan = 0;
  #curves = 0;
  #isCut = false;
  #problem = '';
  #progress = '';
  #charts: ScalarCharts | null = null;

  constructor(options: ScalarReaderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
    this.#firstPass = new Promise((resolve) => {
      this.#endFirstPass = resolve;
    });
  }

  /** Returns the curves. The result is the same object until the data changes. */
  async charts(): Promise<ScalarCharts> {
    this.#requestedAt = this.#clock();
    this.#reading ??= this.#readWhileRequested().finally(() => {
      this.#reading = null;
    });
    await withTimeout(this.#firstPass, this.#options.maxWaitMs ?? 1000, () => {});
    this.#charts ??= this.#draw();
    return this.#charts;
  }

  close(): void {
    this.#closing.abort();
    this.#endFirstPass();
  }

  async #readWhileRequested(): Promise<void> {
    const { pauseMs = PAUSE_MS } = this.#options;
    const pass = async (): Promise<number | null> => {
      if (this.#clock() - this.#requestedAt >= VIEWED_WITHIN_MS) {
        return null;
      }
      await this.#readAll();
      this.#endFirstPass();
      return pauseMs;
    };
    await repeatPasses(pass, { share: READING_SHARE, signal: this.#closing.signal, clock: this.#clock });
  }

  async #readAll(): Promise<void> {
    try {
      const runs = await this.#find();
      for (const name of [...this.#runs.keys()].filter((known) => !runs.some((run) => run.name === known))) {
        this.#runs.delete(name);
        this.#charts = null;
      }
      this.#curves = [...this.#runs.values()].reduce((sum, run) => sum + run.curves.size, 0);
      const readers = runs.map((run) => [this.#readerOf(run.name), run.files] as const);
      const total = readers.reduce((sum, [reader, files]) => sum + reader.unread(files), 0);
      let done = 0;
      for (const [reader, files] of readers) {
        if (reader.unread(files) === 0 && files.length > 0) {
          continue;
        }
        await reader.read(files, (bytes) => {
          done += bytes;
          this.#setMessage({ progress: progressOf(done, total) });
          if (this.#closing.signal.aborted) {
            throw new Error('closed');
          }
        });
        this.#charts = null;
      }
      this.#setMessage({ problem: '' });
    } catch (error) {
      if (this.#closing.signal.aborted) {
        return;
      }
      this.#options.log.warn({ dir: this.#options.dir, error: messageOf(error) }, 'the summaries could not be read; trying again');
      this.#setMessage({ problem: `The summaries cannot be read at the moment: ${messageOf(error)}` });
    }
    this.#setMessage({ progress: '' });
  }

  #setMessage({ problem = this.#problem, progress = this.#progress }: { problem?: string; progress?: string }): void {
    if (problem === this.#problem && progress === this.#progress) {
      return;
    }
    this.#problem = problem;
    this.#progress = progress;
    this.#charts = null;
  }

  async #find(): Promise<Run[]> {
    const { storage, dir } = this.#options;
    const runs: Run[] = [];
    const folders: { readonly name: string; readonly uri: string; readonly depth: number }[] = [{ name: '.', uri: dir, depth: 0 }];
    let seen = 0;
    for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
      seen++;
      if (seen > MAXIMUM_FOLDERS || runs.length === MAXIMUM_RUNS) {
        break;
      }
      const entries = await storage.list(folder.uri);
      const { name, depth } = folder;
      const files = entries.filter((entry) => entry.type === 'file' && entry.name.includes('tfevents'));
      if (files.length > 0) {
        runs.push({ name, files });
      }
      for (const entry of entries) {
        if (entry.type === 'folder' && depth < MAXIMUM_DEPTH) {
          folders.push({ name: name === '.' ? entry.name : `${name}/${entry.name}`, uri: entry.uri, depth: depth + 1 });
        }
      }
      await this.#yieldIfDue();
    }
    return runs.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #readerOf(name: string): RunReader {
    const known = this.#runs.get(name);
    if (known !== undefined) {
      return known;
    }
    const { storage, log } = this.#options;
    const reader = new RunReader({ name, storage, log, yieldIfDue: () => this.#yieldIfDue(), mayGrow: () => this.#mayGrow() });
    this.#runs.set(name, reader);
    return reader;
  }

  #mayGrow(): boolean {
    if (this.#curves >= MAXIMUM_CURVES) {
      this.#isCut = true;
      return false;
    }
    this.#curves++;
    return true;
  }

  async #yieldIfDue(): Promise<void> {
    if (this.#clock() - this.#sliceBegan < SLICE_MS) {
      return;
    }
    await turn();
    this.#sliceBegan = this.#clock();
  }

  #draw(): ScalarCharts {
    const curves = Math.max(1, this.#curves);
    const most = Math.max(2, Math.min(MAXIMUM_POINTS, Math.floor(MAXIMUM_ANSWER_POINTS / curves)));
    const runs = [...this.#runs.values()]
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .filter((run) => run.curves.size > 0)
      .map((run) => ({
        name: run.name,
        scalars: [...run.curves].sort(([a], [b]) => (a < b ? -1 : 1)).map(([tag, curve]) => ({ tag, ...curve.points(most) })),
      }));
    return { runs, message: this.#message() };
  }

  #message(): string {
    const damage = [...this.#runs.values()].reduce((sum, run) => sum + run.damage, 0);
    return [
      this.#problem,
      this.#progress,
      this.#isCut ? `Only ${MAXIMUM_CURVES} curves are shown here; TensorBoard shows all of them.` : '',
      damage > 0 ? `${damage} damaged record${damage === 1 ? ' was' : 's were'} skipped.` : '',
    ]
      .filter((sentence) => sentence !== '')
      .join(' ');
  }
}

/**
 * Returns the progress in steps of 10 %, so that the message changes only a few times. Returns an empty string if little data remains
 * unread.
 */
function progressOf(done: number, total: number): string {
  if (total < 4 * 1024 * 1024 || done >= total) {
    return '';
  }
  return `The summaries are being read: ${Math.floor((done / total) * 10) * 10} %.`;
}
