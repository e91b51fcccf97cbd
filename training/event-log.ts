import { closeSync, mkdirSync, openSync, readdirSync, writeSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import { messageOf } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri, parseUri } from '../storage/uri.ts';
import { encodeFileVersion } from './event-file.ts';

const MIB = 1024 * 1024;
/** Held while storage is away; beyond it the oldest are dropped. */
const MAX_BUFFERED_BYTES = 32 * MIB;
/** So much is written without waiting for its time. */
const FLUSH_BYTES = MIB;
/** A file in HDFS that is so large is left alone, and another one begun. */
const FULL_FILE_BYTES = MIB;
const BLOCK_BYTES = 64 * 1024;
const FIRST_FLUSH_MS = 5000;
/** Of the run's age: what is new in a long run may take longer to be seen. */
const FLUSH_SHARE = 0.05;
const MOST_FLUSH_MS = 30_000;
const RETRY_MS = 1000;

export interface EventLogOptions {
  readonly storage: Storage;
  /** URI of the folder. */
  readonly dir: string;
  /** Told once of each spell of trouble. */
  readonly onTrouble: (message: string) => void;
  /** ms since the epoch. */
  readonly now?: (() => number) | undefined;
}

interface Entry {
  /** null while it is being made. */
  bytes: Buffer | null;
  readonly size: number;
  readonly made: Promise<void> | null;
}

/**
 * Writes event files in the background, from a buffer with a bound. On this machine's disk there is one file, which grows. HDFS files are
 * written whole: the newest one is replaced by itself with more at its end, until it is large enough. So there is about one file for each
 * MiB, and to readers every file only ever grows.
 */
export class EventLog {
  readonly #options: EventLogOptions;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #isLocal: boolean;
  #entries: Entry[] = [];
  #bufferedBytes = 0;
  /** Small records are gathered here; its entry is made when it is full or taken. */
  #block: Buffer = Buffer.alloc(0);
  #blockLength = 0;
  /** What is on its way. */
  #writing: Buffer[] = [];
  /** Of the newest file: its content where it is written whole, else only its length. */
  #content: Buffer[] = [];
  #length = 0;
  #fileNumber = 0;
  /** Seconds since the epoch in the names of this log's files; null until the folder has been looked at. */
  #stamp: number | null = null;
  #dropping = false;
  #failing = false;
  /** A flush has been asked for that has not begun. */
  #urgent = false;
  #timer: NodeJS.Timeout | null = null;
  #work: Promise<void> = Promise.resolve();

  constructor(options: EventLogOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#startedAt = this.#now();
    this.#isLocal = parseUri(options.dir).scheme === 'file';
  }

  /** Nothing waits to be written. */
  get isEmpty(): boolean {
    return this.#entries.length === 0 && this.#blockLength === 0 && this.#writing.length === 0;
  }

  add(record: Buffer): void {
    if (record.length > BLOCK_BYTES / 4) {
      this.#closeBlock();
      this.#entries.push({ bytes: record, size: record.length, made: null });
    } else {
      if (this.#blockLength + record.length > this.#block.length) {
        this.#closeBlock();
        this.#block = Buffer.allocUnsafe(BLOCK_BYTES);
      }
      this.#blockLength += record.copy(this.#block, this.#blockLength);
    }
    this.#added(record.length);
  }

  /** A record that is still being made keeps its place; `size` bytes are counted for it. */
  addLater(record: Promise<Buffer>, size: number): void {
    this.#closeBlock();
    const made = record.then(
      (bytes) => {
        entry.bytes = bytes;
      },
      (error) => {
        entry.bytes = Buffer.alloc(0);
        this.#options.onTrouble(`a summary could not be made: ${messageOf(error)}`);
      },
    );
    const entry: Entry = { bytes: null, size, made };
    this.#entries.push(entry);
    this.#added(size);
  }

  /** Resolves when all so far is to be seen by readers, or could not be written; then it is tried again later. */
  async flush(): Promise<void> {
    this.#stopTimer();
    this.#work = this.#work.then(() => this.#write());
    await this.#work;
  }

  /** The same, tried again until it is done, or `deadlineMs` have passed. */
  async finish(deadlineMs: number): Promise<void> {
    const deadline = performance.now() + deadlineMs;
    await this.flush();
    while (!this.isEmpty && performance.now() + RETRY_MS < deadline) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      await this.flush();
    }
    this.#stopTimer();
    if (!this.isEmpty) {
      this.#options.onTrouble(`the last ${this.#bufferedBytes} bytes of summaries could not be written to ${this.#options.dir}`);
    }
  }

  /** Without waiting, for a process that is about to go; only where the folder is on this machine. */
  flushNow(): void {
    this.#closeBlock();
    const made = this.#entries.flatMap(({ bytes }) => (bytes === null ? [] : [bytes]));
    if (!this.#isLocal || made.length + this.#writing.length === 0) {
      return;
    }
    const folder = fileURLToPath(this.#options.dir);
    mkdirSync(folder, { recursive: true });
    this.#stamp ??= this.#stampAfter(readdirSync(folder));
    // What is on its way is written again, to the same place.
    const content = Buffer.concat([...this.#head(), ...this.#writing, ...made]);
    const file = openSync(`${folder}/${this.#name()}`, this.#length === 0 ? 'w' : 'r+');
    for (let done = 0; done < content.length; ) {
      done += writeSync(file, content, done, content.length - done, this.#length + done);
    }
    closeSync(file);
    this.#length += content.length;
    this.#entries = [];
    this.#writing = [];
    this.#bufferedBytes = 0;
  }

  #closeBlock(): void {
    if (this.#blockLength > 0) {
      this.#entries.push({ bytes: this.#block.subarray(0, this.#blockLength), size: this.#blockLength, made: null });
      // The rest of the block serves on.
      this.#block = this.#block.subarray(this.#blockLength);
      this.#blockLength = 0;
    }
  }

  #added(size: number): void {
    this.#bufferedBytes += size;
    if (this.#bufferedBytes > MAX_BUFFERED_BYTES) {
      this.#drop();
    }
    if (this.#bufferedBytes > FLUSH_BYTES && !this.#failing && !this.#urgent) {
      this.#urgent = true;
      void this.flush();
    } else if (this.#timer === null) {
      this.#startTimer();
    }
  }

  #drop(): void {
    this.#closeBlock();
    while (this.#bufferedBytes > MAX_BUFFERED_BYTES) {
      this.#bufferedBytes -= this.#entries.shift()?.size ?? this.#bufferedBytes;
    }
    if (!this.#dropping) {
      this.#dropping = true;
      const room = `${MAX_BUFFERED_BYTES / MIB} MiB`;
      this.#options.onTrouble(`more than ${room} of summaries wait to be written to ${this.#options.dir}: the oldest of them are dropped`);
    }
  }

  #startTimer(): void {
    const age = this.#now() - this.#startedAt;
    const wait = this.#isLocal ? FIRST_FLUSH_MS : Math.min(MOST_FLUSH_MS, Math.max(FIRST_FLUSH_MS, age * FLUSH_SHARE));
    this.#timer = setTimeout(() => void this.flush(), wait);
    this.#timer.unref();
  }

  #stopTimer(): void {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
  }

  async #write(): Promise<void> {
    this.#closeBlock();
    const entries = this.#entries;
    await Promise.all(entries.map(({ made }) => made));
    // Some may have been dropped, and others have come, while waiting.
    const count = entries.findIndex(({ bytes }) => bytes === null);
    const taken = entries.splice(0, count === -1 ? entries.length : count);
    const size = taken.reduce((sum, entry) => sum + entry.size, 0);
    this.#urgent = false;
    if (taken.length === 0) {
      return;
    }
    this.#bufferedBytes -= size;
    this.#writing = taken.map(({ bytes }) => bytes as Buffer);
    try {
      await (this.#isLocal ? this.#append() : this.#replace());
      this.#failing = false;
      this.#dropping = false;
      this.#writing = [];
    } catch (error) {
      if (!this.#failing) {
        this.#failing = true;
        this.#options.onTrouble(`summaries could not be written: ${messageOf(error)}; it is tried again`);
      }
      this.#writing = [];
      this.#entries.unshift(...taken);
      this.#bufferedBytes += size;
      this.#stopTimer();
      this.#startTimer();
    }
  }

  async #append(): Promise<void> {
    const folder = fileURLToPath(this.#options.dir);
    await mkdir(folder, { recursive: true });
    this.#stamp ??= await this.#newestStamp();
    const content = Buffer.concat([...this.#head(), ...this.#writing]);
    // At its place: another try overwrites what a failed one has left.
    const file = await open(`${folder}/${this.#name()}`, this.#length === 0 ? 'w' : 'r+').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') {
        // Somebody has removed it: the next try begins a new one.
        this.#length = 0;
      }
      throw error;
    });
    try {
      for (let done = 0; done < content.length; ) {
        done += (await file.write(content, done, content.length - done, this.#length + done)).bytesWritten;
      }
    } finally {
      await file.close();
    }
    this.#length += content.length;
  }

  async #replace(): Promise<void> {
    this.#stamp ??= await this.#newestStamp();
    const content = [...this.#content, ...this.#head(), ...this.#writing];
    await this.#options.storage.write(joinUri(this.#options.dir, this.#name()), Buffer.concat(content));
    this.#content = content;
    this.#length = content.reduce((sum, { length }) => sum + length, 0);
    if (this.#length >= FULL_FILE_BYTES) {
      this.#content = [];
      this.#length = 0;
      this.#fileNumber++;
    }
  }

  #head(): Buffer[] {
    return this.#length === 0 ? [encodeFileVersion(this.#startedAt / 1000)] : [];
  }

  async #newestStamp(): Promise<number> {
    const entries = await this.#options.storage.list(this.#options.dir);
    return this.#stampAfter(entries.map(({ name }) => name));
  }

  /** TensorBoard reads files in the order of their names: this log's come after those of the run before, also when its machine's clock was ahead. */
  #stampAfter(names: readonly string[]): number {
    const stamps = names.map((name) => Number(/^events\.out\.tfevents\.(\d+)\./.exec(name)?.[1] ?? 0));
    return stamps.reduce((newest, stamp) => Math.max(newest, stamp + 1), Math.floor(this.#startedAt / 1000));
  }

  #name(): string {
    const seconds = String(this.#stamp).padStart(10, '0');
    return `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${String(this.#fileNumber).padStart(6, '0')}`;
  }
}
