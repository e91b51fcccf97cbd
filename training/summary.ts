import { appendFile, mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import { messageOf } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri, parseUri } from '../storage/uri.ts';
import { encodeFileVersion, encodeRestart, encodeScalars } from './event-file.ts';

/** Where TensorBoard reads: scalars by step. */
export interface Summaries {
  /** @param tag as TensorBoard groups them, e.g. `train/loss`. */
  scalar(tag: string, value: number, step: number): void;
  scalars(values: Readonly<Record<string, number>>, step: number): void;
  /** Everything so far is to be seen by readers. */
  flush(): Promise<void>;
}

/** Held while storage is away; beyond it the oldest are dropped. */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;
const FIRST_FLUSH_MS = 5000;
/** Files get rarer as a run gets longer: their number grows with the logarithm of its length. */
const FLUSH_SHARE = 0.05;
const MOST_FLUSH_MS = 600_000;

export interface SummaryOptions {
  readonly storage: Storage;
  /** URI of the run's own folder: TensorBoard shows each folder as a run. */
  readonly dir: string;
  readonly onTrouble: (message: string) => void;
  /** ms since the epoch. */
  readonly now?: () => number;
}

/**
 * Writes event files in the background. On this machine's disk one file is appended to. HDFS files are written whole: each flush makes
 * a new one, and TensorBoard reads all files of a folder one after the other, in the order of their names.
 */
export class SummaryWriter implements Summaries {
  readonly #options: SummaryOptions;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #isLocal: boolean;
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #files = 0;
  #timer: NodeJS.Timeout | null = null;
  #work: Promise<void> = Promise.resolve();

  constructor(options: SummaryOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#startedAt = this.#now();
    this.#isLocal = parseUri(options.dir).scheme === 'file';
  }

  /** To be called before the first scalar of a resumed run: later steps of the interrupted one are void. */
  resumeFrom(step: number): void {
    this.#add(encodeRestart(this.#now() / 1000, step));
  }

  scalar(tag: string, value: number, step: number): void {
    this.scalars({ [tag]: value }, step);
  }

  scalars(values: Readonly<Record<string, number>>, step: number): void {
    const list = Object.entries(values).map(([tag, value]) => ({ tag, value }));
    this.#add(encodeScalars(this.#now() / 1000, step, list));
  }

  async flush(): Promise<void> {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
    this.#work = this.#work.then(() => this.#write());
    await this.#work;
  }

  #add(record: Buffer): void {
    this.#buffered.push(record);
    this.#bufferedBytes += record.length;
    while (this.#bufferedBytes > MAX_BUFFERED_BYTES) {
      this.#bufferedBytes -= this.#buffered.shift()?.length ?? 0;
    }
    if (this.#timer === null) {
      const age = this.#now() - this.#startedAt;
      const wait = this.#isLocal ? FIRST_FLUSH_MS : Math.min(MOST_FLUSH_MS, Math.max(FIRST_FLUSH_MS, age * FLUSH_SHARE));
      this.#timer = setTimeout(() => void this.flush(), wait);
      this.#timer.unref();
    }
  }

  async #write(): Promise<void> {
    if (this.#buffered.length === 0) {
      return;
    }
    const records = this.#buffered;
    const bytes = this.#bufferedBytes;
    this.#buffered = [];
    this.#bufferedBytes = 0;
    try {
      if (this.#isLocal) {
        await this.#append(records);
      } else {
        await this.#writeFile(records);
      }
    } catch (error) {
      this.#options.onTrouble(`summaries could not be written: ${messageOf(error)}; it is tried again`);
      this.#buffered = [...records, ...this.#buffered];
      this.#bufferedBytes += bytes;
    }
  }

  async #append(records: readonly Buffer[]): Promise<void> {
    const folder = fileURLToPath(this.#options.dir);
    const first = this.#files === 0;
    await mkdir(folder, { recursive: true });
    await appendFile(`${folder}/${this.#nameOf(0)}`, Buffer.concat(first ? [this.#version(), ...records] : records));
    this.#files = 1;
  }

  async #writeFile(records: readonly Buffer[]): Promise<void> {
    const uri = joinUri(this.#options.dir, this.#nameOf(this.#files));
    await this.#options.storage.write(uri, Buffer.concat([this.#version(), ...records]));
    this.#files++;
  }

  #version(): Buffer {
    return encodeFileVersion(this.#startedAt / 1000);
  }

  /** TensorBoard takes any name with `tfevents` in it; seconds first, so that the order of names is that of time. */
  #nameOf(sequence: number): string {
    const seconds = String(Math.floor(this.#startedAt / 1000)).padStart(10, '0');
    return `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${String(sequence).padStart(6, '0')}`;
  }
}

/** For ranks that leave it to another, and programs without a place to write. */
export const NO_SUMMARIES: Summaries = { scalar: () => {}, scalars: () => {}, flush: () => Promise.resolve() };
