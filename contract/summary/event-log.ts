import { closeSync, mkdirSync, openSync, readdirSync, writeSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import { pause } from '../../platform/async/backoff.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri, parseUri } from '../../storage/uri.ts';
import { encodeFileVersion } from './event-file.ts';

const MIB = 1024 * 1024;
/** The maximum size of the buffer in bytes. If storage is unavailable and the buffer is full, the log drops its oldest records. */
const MAX_BUFFERED_BYTES = 32 * MIB;
/** The buffer size in bytes at which the log flushes immediately, without waiting for the flush interval. */
const FLUSH_BYTES = MIB;
/** The size in bytes at which the log starts a new file on HDFS. */
const FULL_FILE_BYTES = MIB;
const BLOCK_BYTES = 64 * 1024;
const FIRST_FLUSH_MS = 5000;
/**
 * The flush interval on HDFS, as a fraction of the time since the run started. The longer a run takes, the less urgent its new values are.
 */
const FLUSH_SHARE = 0.05;
const MOST_FLUSH_MS = 30_000;
const RETRY_MS = 1000;
/** The `about` field of notices about write failures and their recovery. */
const ABOUT = 'summaries';

export interface EventLogOptions {
  readonly storage: Storage;
  /** The URI of the folder that contains the event files. */
  readonly dir: string;
  /**
   * Called when records are dropped, when writes begin to fail, and when writes succeed again. `about` is the same in the last two cases.
   */
  readonly onTrouble: (message: string, about?: string) => void;
  readonly now?: (() => number) | undefined;
}

interface Entry {
  /** The encoded record, or null while it is being encoded. */
  bytes: Buffer | null;
  readonly size: number;
  readonly made: Promise<void> | null;
}

/**
 * Writes event files in the background from a bounded buffer. Readers see files that only grow. On a local disk, the log appends to one
 * file. On HDFS, the log replaces the newest file with a longer version until the file reaches FULL_FILE_BYTES, and then starts a new
 * file.
 */
export class SummaryEventLog {
  readonly #options: EventLogOptions;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #isLocal: boolean;
  #entries: Entry[] = [];
  #bufferedBytes = 0;
  /** A buffer for small records. When the block is full or flushed, it becomes an entry. */
  #block: Buffer = Buffer.alloc(0);
  #blockLength = 0;
  #writing: Buffer[] = [];
  /** The contents of the newest file on HDFS. The next version of this file begins with these contents. Empty for a local disk. */
  #content: Buffer[] = [];
  #length = 0;
  #fileNumber = 0;
  /** The timestamp in this log's file names, in seconds since the epoch, or null until the folder has been listed. */
  #stamp: number | null = null;
  #dropping = false;
  #failing = false;
  /** True while the buffer exceeds FLUSH_BYTES and its flush has not begun. */
  #urgent = false;
  #timer: NodeJS.Timeout | null = null;
  #work: Promise<void> = Promise.resolve();

  constructor(options: EventLogOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#startedAt = this.#now();
    this.#isLocal = parseUri(options.dir).scheme === 'file';
  }

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

  /**
   * Adds a record that is still being encoded. Records are written in the order in which they are added.
   * @param size the estimated size in bytes.
   */
  addLater(record: Promise<Buffer>, size: number): void {
    this.#closeBlock();
    const made = record.then(
      (bytes) => {
        entry.bytes = bytes;
      },
      (error) => {
        entry.bytes = Buffer.alloc(0);
        this.#options.onTrouble(`a summary could not be encoded and is omitted: ${messageOf(error)}`);
      },
    );
    const entry: Entry = { bytes: null, size, made };
    this.#entries.push(entry);
    this.#added(size);
  }

  /** Writes all records. Resolves once readers can see the records or the write has failed. The log retries a failed write later. */
  async flush(): Promise<void> {
    this.#stopTimer();
    this.#work = this.#work.then(() => this.#write());
    await this.#work;
  }

  /** Flushes and retries until all records are written or `deadlineMs` milliseconds have passed. */
  async finish(deadlineMs: number): Promise<void> {
    const deadline = performance.now() + deadlineMs;
    await this.flush();
    while (!this.isEmpty && performance.now() + RETRY_MS < deadline) {
      await pause(RETRY_MS);
      await this.flush();
    }
    this.#stopTimer();
    if (!this.isEmpty) {
      this.#options.onTrouble(`the last ${this.#bufferedBytes} bytes of summaries could not be written to ${this.#options.dir}`);
    }
  }

  /** Flushes synchronously before the process exits. Does nothing if the folder is not local. */
  flushNow(): void {
    this.#closeBlock();
    const made = this.#entries.flatMap(({ bytes }) => (bytes === null ? [] : [bytes]));
    if (!this.#isLocal || made.length + this.#writing.length === 0) {
      return;
    }
    const folder = fileURLToPath(this.#options.dir);
    mkdirSync(folder, { recursive: true });
    this.#stamp ??= this.#stampAfter(readdirSync(folder));
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
      this.#options.onTrouble(
        `more than ${room} of summaries are waiting to be written to ${this.#options.dir}; the oldest summaries are dropped`,
      );
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
    // While this method waited, entries may have been dropped or added.
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
      if (this.#failing) {
        this.#options.onTrouble('summaries can be written again', ABOUT);
      }
      this.#failing = false;
      this.#dropping = false;
      this.#writing = [];
    } catch (error) {
      if (!this.#failing) {
        this.#failing = true;
        this.#options.onTrouble(`summaries could not be written and will be retried: ${messageOf(error)}`, ABOUT);
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
    // The write starts at a fixed offset, so a retry overwrites the partial output of a failed write.
    const file = await open(`${folder}/${this.#name()}`, this.#length === 0 ? 'w' : 'r+').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') {
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

  /**
   * Returns the time for the file names. TensorBoard reads files in name order, so these names must sort after the previous process's
   * names, even if that process ran on a machine whose clock was ahead.
   */
  #stampAfter(names: readonly string[]): number {
    const stamps = names.map((name) => Number(/^events\.out\.tfevents\.(\d+)\./.exec(name)?.[1] ?? 0));
    return stamps.reduce((newest, stamp) => Math.max(newest, stamp + 1), Math.floor(this.#startedAt / 1000));
  }

  #name(): string {
    const seconds = String(this.#stamp).padStart(10, '0');
    return `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${String(this.#fileNumber).padStart(6, '0')}`;
  }
}
