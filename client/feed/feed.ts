import { randomBytes } from 'node:crypto';
import { types } from 'node:util';
import { backoffMs, jittered, pause } from '../../platform/backoff.ts';
import { checkOptions, type OptionNames, pickOptions } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type FeedAddress, type FeedMessage, MAXIMUM_RECORD_BYTES } from '../../protos/feed-protocol.ts';
import { CONNECT_OPTIONS, type ConnectOptions, connectJob } from '../connections/connect-job.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { FeedConnection } from './feed-connection.ts';
import { type FeedPlace, openFeedPlace } from './feed-place.ts';

export interface FeedProgress {
  /** `waiting`: for the job to start and read a feed. `connected`: the job accepts records. `full`: the job's buffers are full. */
  readonly state: 'waiting' | 'connected' | 'full' | 'over';
  /** Why the feed makes no progress, as a sentence; empty if it does. */
  readonly reason: string;
  /** Numbers of records written, and acknowledged by workers of the job. */
  readonly written: number;
  readonly taken: number;
  /** The number of workers that read this feed. */
  readonly readers: number;
}

export interface FeedOptions extends ConnectOptions {
  /**
   * Name of this producer; default: a random one. The feed ends only when each producer has ended it. If a producer's process dies without
   * `end`, another process can continue or end the feed under the same name. Records that the dead process had not sent are lost.
   */
  readonly producer?: string;
  /** Called at each change, at most a few times per second. */
  readonly onProgress?: (progress: FeedProgress) => void;
  readonly signal?: AbortSignal;
}

/** A string is sent as UTF-8, a typed array or buffer as the bytes it covers. Readers receive bytes. */
export type FeedRecord = string | ArrayBufferView | ArrayBufferLike;

const FEED_OPTIONS: OptionNames<FeedOptions> = { ...CONNECT_OPTIONS, producer: true, onProgress: true, signal: true };

const CHUNK_BYTES = 256 * 1024;
const CHUNK_RECORDS = 256;
/** The buffer limit until the job has announced its window. */
const FIRST_WINDOW_BYTES = 1024 * 1024;
/** The overhead of a record in addition to its bytes. */
const RECORD_COST = 64;
const BACKOFF = { firstMs: 200, mostMs: 2_000 };
/** How often to check whether an unreachable job has ended. */
const LOOK_EVERY_MS = 2_000;
const PROGRESS_MS = 250;

interface Chunk {
  readonly sequence: number;
  readonly records: readonly Uint8Array[];
  readonly bytes: number;
}

/**
 * Writes records to a feed of a running job, which reads it with `fromFeed(name)`. While the job's buffers are full, `write` waits, without
 * a timeout. Each record is delivered to exactly one worker: it is resent over new connections and to a new ApplicationMaster until a
 * worker has taken it.
 *
 * @param name the feed's name in the job's program
 * @throws TonyError USAGE, APPLICATION_UNKNOWN; later, from `write` and `end`: FEED_ENDED when the job has ended, with its result,
 *   FEED_REFUSED, ACCESS_DENIED
 */
export async function openFeed(applicationId: string, name: string, options: FeedOptions = {}): Promise<FeedWriter> {
  checkOptions('openFeed', options, FEED_OPTIONS);
  const producer = options.producer ?? randomBytes(8).toString('hex');
  for (const [what, text] of [
    ['feed', name],
    ['producer', producer],
  ]) {
    if (!/^[\w.-]{1,100}$/.test(text as string)) {
      throw new TonyError('USAGE', `"${text}" is not a valid name of a ${what}: use letters, digits, dots and dashes.`);
    }
  }
  const connection = await connectJob(applicationId, pickOptions<ConnectOptions>(options, CONNECT_OPTIONS));
  try {
    const { result } = await connection.observe();
    if (result !== null) {
      throw new TonyError('FEED_ENDED', `${applicationId} has ended already: ${result.state}.`);
    }
    return new FeedWriter(connection, await openFeedPlace(applicationId, options), name, producer, options);
  } catch (error) {
    connection.close();
    throw error;
  }
}

export class FeedWriter {
  readonly #job: JobConnection;
  readonly #place: FeedPlace;
  readonly #feed: string;
  /** The producer's name, under which another process can continue. */
  readonly producer: string;
  readonly #options: FeedOptions;
  readonly #closing = new AbortController();
  readonly #work: Promise<void>;
  /** Chunks that no worker has acknowledged yet. */
  readonly #chunks: Chunk[] = [];
  #bytes = 0;
  /** The records of the next chunk. */
  #records: Uint8Array[] = [];
  #recordBytes = 0;
  #nextSequence = 1;
  /** Whether the chunks have sequence numbers. A named producer may have run before, so its numbering continues where the job reports. */
  #isNumbered: boolean;
  #isEnded = false;
  #last: number | null = null;
  #endSent = false;
  #window = FIRST_WINDOW_BYTES;
  #connection: FeedConnection | null = null;
  /** The next chunk to send on this connection; null until the job has announced the first one it expects. */
  #sendFrom: number | null = null;
  #isOver = false;
  #failure: unknown = null;
  #reason = 'the job has to be asked';
  #readers = 0;
  #written = 0;
  #taken = 0;
  #toldAt = Number.NEGATIVE_INFINITY;
  #telling: NodeJS.Timeout | null = null;
  readonly #waiting = new Set<() => void>();

  constructor(job: JobConnection, place: FeedPlace, feed: string, producer: string, options: FeedOptions) {
    this.#job = job;
    this.#place = place;
    this.#feed = feed;
    this.producer = producer;
    this.#options = options;
    this.#isNumbered = options.producer === undefined;
    const abort = (): void => this.#fail(options.signal?.reason);
    if (options.signal?.aborted === true) {
      abort();
    } else {
      options.signal?.addEventListener('abort', abort, { once: true });
    }
    this.#work = this.#run().finally(() => options.signal?.removeEventListener('abort', abort));
  }

  /**
   * Resolves when the buffer has room for the next record. Callers need not await each call, but then memory use is unbounded. The bytes
   * are copied before `write` returns.
   *
   * @throws TonyError USAGE for an unsupported value, for a record that is too large, and after `end`; other records are not affected
   */
  async write(record: FeedRecord): Promise<void> {
    const bytes = bytesOf(record);
    if (bytes.length > MAXIMUM_RECORD_BYTES) {
      throw new TonyError(
        'USAGE',
        `a record of ${bytes.length} bytes is too large for a feed; the limit is ${MAXIMUM_RECORD_BYTES} bytes.`,
      );
    }
    if (this.#isEnded) {
      throw new TonyError('USAGE', 'the feed has ended and accepts no more records.');
    }
    this.#throwFailure();
    if (this.#recordBytes + bytes.length > CHUNK_BYTES) {
      this.#cut();
    }
    this.#records.push(bytes);
    this.#recordBytes += bytes.length + RECORD_COST;
    this.#written++;
    if (this.#records.length >= CHUNK_RECORDS || this.#recordBytes >= CHUNK_BYTES) {
      this.#cut();
    }
    // Records written in the same tick share a chunk; the chunk is not delayed further.
    else if (this.#records.length === 1) {
      setImmediate(() => this.#cut());
    }
    while (this.#bytes + this.#recordBytes > this.#window && this.#failure === null) {
      await this.#changed();
    }
    this.#throwFailure();
  }

  /** Ends the feed for this producer. Resolves when workers have taken all records. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#cut();
    if (this.#isNumbered) {
      this.#last ??= this.#nextSequence - 1;
    }
    this.#pump();
    while (!this.#isOver && this.#failure === null) {
      await this.#changed();
    }
    await this.#close();
    this.#throwFailure();
  }

  /** Closes without ending the feed: the job waits for a producer of the same name. Records that no worker has taken are not resent. */
  async close(): Promise<void> {
    this.#failure ??= new TonyError('USAGE', 'the feed was closed.');
    await this.#close();
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    this.#connection?.close();
    this.#wake();
    await this.#work;
    if (this.#telling !== null) {
      clearTimeout(this.#telling);
    }
    this.#telling = null;
    this.#tellNow();
    this.#place.close();
    this.#job.close();
  }

  /** Connects and reconnects until all records are taken or the job has ended. */
  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let lookedAt = Number.NEGATIVE_INFINITY;
    for (let failures = 1; !signal.aborted && !this.#isOver; failures++) {
      try {
        const address = await this.#place.read();
        // The feed was closed while the address was read.
        if (signal.aborted) {
          break;
        }
        if (address !== null && (await this.#connect(address))) {
          failures = 1;
        } else if (address === null) {
          this.#reason = 'the job does not read a feed yet';
        }
        if (signal.aborted || this.#isOver) {
          break;
        }
        if (performance.now() - lookedAt > LOOK_EVERY_MS) {
          const { result, status } = await this.#job.observe();
          lookedAt = performance.now();
          if (result !== null) {
            const why = result.diagnostics === '' ? '' : `: ${result.diagnostics}`;
            throw new TonyError(
              'FEED_ENDED',
              `${this.#job.applicationId} ended (${result.state}) before it had received all records${why}`,
            );
          }
          if (status === null) {
            this.#reason = 'the job waits for the cluster';
          }
        }
      } catch (error) {
        if (error instanceof TonyError && ['FEED_ENDED', 'FEED_REFUSED', 'ACCESS_DENIED', 'APPLICATION_UNKNOWN'].includes(error.code)) {
          this.#fail(error);
          return;
        }
        this.#reason = messageOf(error);
      }
      this.#tell();
      await pause(jittered(backoffMs(failures, BACKOFF)), signal);
    }
  }

  /** Uses one connection until it is lost. @returns whether the job has sent a message */
  #connect(address: FeedAddress): Promise<boolean> {
    const opening = { feed: this.#feed, producer: this.producer, first: this.#chunks[0]?.sequence ?? this.#nextSequence };
    return new Promise((resolve, reject) => {
      let hasSpoken = false;
      const stop = (): void => resolve(hasSpoken);
      this.#sendFrom = null;
      this.#connection = new FeedConnection(address, opening, {
        message: (message) => {
          hasSpoken = true;
          this.#hear(message);
        },
        room: () => this.#pump(),
        lost: (reason, isFinal) => {
          this.#closing.signal.removeEventListener('abort', stop);
          this.#connection = null;
          this.#reason = reason;
          if (isFinal) {
            reject(new TonyError('FEED_REFUSED', `the job rejected this producer: ${reason}.`));
          } else {
            resolve(hasSpoken);
          }
        },
      });
      this.#closing.signal.addEventListener('abort', stop, { once: true });
    });
  }

  #hear({ expected = 0, taken, windowBytes, over = false, readers = 0 }: FeedMessage): void {
    this.#readers = readers;
    this.#window = windowBytes;
    while ((this.#chunks[0]?.sequence ?? Number.POSITIVE_INFINITY) <= taken) {
      const { bytes, records } = this.#chunks.shift() as Chunk;
      this.#bytes -= bytes;
      this.#taken += records.length;
    }
    if (this.#sendFrom === null) {
      this.#sendFrom = Math.max(1, expected);
      this.#endSent = false;
      if (!this.#isNumbered) {
        this.#isNumbered = true;
        this.#nextSequence = this.#sendFrom;
        this.#cut();
        if (this.#isEnded) {
          this.#last = this.#nextSequence - 1;
        }
      }
    }
    this.#isOver ||= over && this.#last !== null;
    if (this.#isOver) {
      this.#connection?.close();
    }
    this.#pump();
    this.#wake();
    this.#tell();
  }

  #cut(): void {
    if (!this.#isNumbered) {
      return;
    }
    let records: Uint8Array[] = [];
    let bytes = 0;
    const push = (): void => {
      if (records.length === 0) {
        return;
      }
      this.#chunks.push({ sequence: this.#nextSequence++, records, bytes });
      this.#bytes += bytes;
      [records, bytes] = [[], 0];
    };
    // The records of an unnumbered producer may exceed one message.
    for (const record of this.#records) {
      const cost = record.length + RECORD_COST;
      if (records.length >= CHUNK_RECORDS || bytes + cost > CHUNK_BYTES) {
        push();
      }
      records.push(record);
      bytes += cost;
    }
    push();
    this.#records = [];
    this.#recordBytes = 0;
    this.#pump();
  }

  /** Sends as many chunks as the job's window and the connection allow. */
  #pump(): void {
    const connection = this.#connection;
    if (connection === null || this.#sendFrom === null) {
      return;
    }
    let under = 0;
    for (const chunk of this.#chunks) {
      under += chunk.bytes;
      if (chunk.sequence < this.#sendFrom) {
        continue;
      }
      // A single chunk may exceed the window, but not while the window is 0.
      if (under > this.#window && (under > chunk.bytes || this.#window === 0)) {
        return;
      }
      if (connection.isFull) {
        return;
      }
      this.#sendFrom = chunk.sequence + 1;
      connection.send({ chunk: { sequence: chunk.sequence, records: chunk.records } });
    }
    if (this.#last === null || this.#endSent || this.#sendFrom <= this.#last) {
      return;
    }
    this.#endSent = true;
    connection.send({ ending: { last: this.#last } });
  }

  #throwFailure(): void {
    if (this.#failure !== null) {
      throw this.#failure;
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= error ?? new TonyError('INTERRUPTED', 'interrupted');
    this.#closing.abort();
    this.#connection?.close();
    this.#wake();
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.add(resolve);
    });
  }

  #wake(): void {
    for (const wake of this.#waiting) {
      wake();
    }
    this.#waiting.clear();
  }

  #tell(): void {
    if (this.#options.onProgress === undefined || this.#telling !== null) {
      return;
    }
    const pause = Math.max(0, this.#toldAt + PROGRESS_MS - performance.now());
    this.#telling = setTimeout(() => {
      this.#telling = null;
      this.#tellNow();
    }, pause);
  }

  #tellNow(): void {
    this.#toldAt = performance.now();
    const isConnected = this.#connection !== null && this.#sendFrom !== null;
    const isFull = this.#bytes + this.#recordBytes > this.#window;
    const unread = this.#readers === 0 ? `no worker reads the feed ${this.#feed} yet` : '';
    this.#options.onProgress?.({
      state: this.#isOver ? 'over' : !isConnected ? 'waiting' : isFull ? 'full' : 'connected',
      reason: this.#isOver ? '' : isConnected ? unread : this.#reason,
      written: this.#written,
      taken: this.#taken,
      readers: this.#readers,
    });
  }
}

function bytesOf(record: FeedRecord): Uint8Array {
  if (typeof record === 'string') {
    return Buffer.from(record);
  }
  // Copied, because the caller may reuse its buffer while the record waits to be sent.
  if (ArrayBuffer.isView(record)) {
    return Uint8Array.from(new Uint8Array(record.buffer, record.byteOffset, record.byteLength));
  }
  if (types.isAnyArrayBuffer(record)) {
    return Uint8Array.from(new Uint8Array(record));
  }
  throw new TonyError('USAGE', `A feed accepts strings and bytes, not ${kindOf(record)}.`, {
    hint: 'Write JSON.stringify(value), or the bytes that your program decodes.',
  });
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) {
    return String(value);
  }
  if (typeof value !== 'object') {
    return `a ${typeof value}`;
  }
  return Array.isArray(value) ? 'an array' : 'an object';
}
