import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, TonyError } from '../conf/errors.ts';
import { type FeedAddress, type FeedMessage, MAXIMUM_RECORD_BYTES } from '../protos/feed-protocol.ts';
import { type ConnectOptions, connectJob } from './connect-job.ts';
import { FeedConnection } from './feed-connection.ts';
import { type FeedPlace, openFeedPlace } from './feed-place.ts';
import type { JobConnection } from './job-connection.ts';

export interface FeedProgress {
  /** `waiting`: for the job to be there and to read a feed. `connected`: it takes records. `full`: it has enough for now. */
  readonly state: 'waiting' | 'connected' | 'full' | 'over';
  /** Why nothing goes on, for people; empty when it does. */
  readonly reason: string;
  /** Records that were written, and that workers of the job have taken. */
  readonly written: number;
  readonly taken: number;
  /** Workers that read this feed. */
  readonly readers: number;
}

export interface FeedOptions extends ConnectOptions {
  /**
   * Name of this producer; a new one unless told. The feed ends only when each producer has ended: one whose process has died without `end` can
   * be followed by another process of the same name, which goes on, or only ends it. What the dead one had not sent yet is not known here.
   */
  readonly producer?: string;
  /** Called at each change, a few times a second at most. */
  readonly onProgress?: (progress: FeedProgress) => void;
  readonly signal?: AbortSignal;
}

const CHUNK_BYTES = 256 * 1024;
const CHUNK_RECORDS = 256;
/** What is held before the job has said how much it takes. */
const FIRST_WINDOW_BYTES = 1024 * 1024;
/** What a record costs beside its bytes. */
const RECORD_COST = 64;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 2_000;
/** How often a job that is not there is asked whether it has ended. */
const LOOK_EVERY_MS = 2_000;
const PROGRESS_MS = 250;

interface Chunk {
  readonly sequence: number;
  readonly records: readonly Uint8Array[];
  readonly bytes: number;
}

/**
 * Puts records into a feed of a running job, which reads it with `fromFeed(name)`. While the job has enough, `write` waits: for as long as the
 * job lives. Each record goes to one worker; it is sent again until one has taken it, over new connections and to a new ApplicationMaster, and
 * is given to none twice.
 *
 * @param name of the feed, as the job's program says it.
 * @throws TonyError USAGE, APPLICATION_UNKNOWN; later, from `write` and `end`: FEED_ENDED when the job has ended, with how it ended,
 *   FEED_REFUSED, ACCESS_DENIED.
 */
export async function openFeed(applicationId: string, name: string, options: FeedOptions = {}): Promise<FeedWriter> {
  const producer = options.producer ?? randomBytes(8).toString('hex');
  for (const [what, text] of [
    ['feed', name],
    ['producer', producer],
  ]) {
    if (!/^[\w.-]{1,100}$/.test(text as string))
      throw new TonyError('USAGE', `"${text}" is no name of a ${what}: it has letters, digits, points and dashes.`);
  }
  const connection = await connectJob(applicationId, options);
  try {
    const { result } = await connection.observe();
    if (result !== null) throw new TonyError('FEED_ENDED', `${applicationId} has ended already: ${result.state}.`);
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
  /** Its name: another process goes on under it. */
  readonly producer: string;
  readonly #options: FeedOptions;
  readonly #closing = new AbortController();
  readonly #work: Promise<void>;
  /** Sent or to be sent, and not taken. */
  readonly #chunks: Chunk[] = [];
  #bytes = 0;
  /** Of the next chunk. */
  #records: Uint8Array[] = [];
  #recordBytes = 0;
  #nextSequence = 1;
  /** Chunks of a producer that may have been here before are numbered from where it was. */
  #isNumbered: boolean;
  #isEnded = false;
  #last: number | null = null;
  #endSent = false;
  #window = FIRST_WINDOW_BYTES;
  #connection: FeedConnection | null = null;
  /** Number of the next chunk to be sent on this connection; null before the job has said where to begin. */
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
    if (options.signal?.aborted === true) abort();
    else options.signal?.addEventListener('abort', abort, { once: true });
    this.#work = this.#run().finally(() => options.signal?.removeEventListener('abort', abort));
  }

  /** Resolves when there is room for the next one; it need not be awaited for each record, but then memory is not bounded. */
  async write(record: Uint8Array | string): Promise<void> {
    const bytes = typeof record === 'string' ? Buffer.from(record) : record;
    if (bytes.length > MAXIMUM_RECORD_BYTES) {
      throw new TonyError('USAGE', `a record of ${bytes.length} bytes is too large for a feed; it may have ${MAXIMUM_RECORD_BYTES}.`);
    }
    if (this.#isEnded) throw new TonyError('USAGE', 'the feed was ended: nothing can be written after that.');
    this.#throwFailure();
    if (this.#recordBytes + bytes.length > CHUNK_BYTES) this.#cut();
    this.#records.push(bytes);
    this.#recordBytes += bytes.length + RECORD_COST;
    this.#written++;
    if (this.#records.length >= CHUNK_RECORDS || this.#recordBytes >= CHUNK_BYTES) this.#cut();
    // What is written in one go travels together; nothing waits for what may come later.
    else if (this.#records.length === 1) setImmediate(() => this.#cut());
    while (this.#bytes + this.#recordBytes > this.#window && this.#failure === null) await this.#changed();
    this.#throwFailure();
  }

  /** No record comes after this. Resolves when all have been taken. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#cut();
    if (this.#isNumbered) this.#last ??= this.#nextSequence - 1;
    this.#pump();
    while (!this.#isOver && this.#failure === null) await this.#changed();
    await this.#close();
    this.#throwFailure();
  }

  /** Goes without ending the feed: the job waits for a producer of the same name to go on. What was not taken is not sent any more. */
  async close(): Promise<void> {
    this.#failure ??= new TonyError('USAGE', 'the feed was closed.');
    await this.#close();
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    this.#connection?.close();
    this.#wake();
    await this.#work;
    if (this.#telling !== null) clearTimeout(this.#telling);
    this.#telling = null;
    this.#tellNow();
    this.#place.close();
    this.#job.close();
  }

  /** Until everything is taken, or the job has ended: connects, and again when the connection is lost. */
  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let lookedAt = Number.NEGATIVE_INFINITY;
    for (let pause = FIRST_PAUSE_MS; !signal.aborted && !this.#isOver; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        const address = await this.#place.read();
        // Whoever closed it meanwhile has found no connection to close.
        if (signal.aborted) break;
        if (address !== null && (await this.#connect(address))) pause = FIRST_PAUSE_MS;
        else if (address === null) this.#reason = 'the job does not read a feed yet';
        if (signal.aborted || this.#isOver) break;
        if (performance.now() - lookedAt > LOOK_EVERY_MS) {
          const { result, status } = await this.#job.observe();
          lookedAt = performance.now();
          if (result !== null) {
            const why = result.diagnostics === '' ? '' : `: ${result.diagnostics}`;
            throw new TonyError(
              'FEED_ENDED',
              `${this.#job.applicationId} has ended (${result.state}) before it had taken everything${why}`,
            );
          }
          if (status === null) this.#reason = 'the job waits for the cluster';
        }
      } catch (error) {
        if (error instanceof TonyError && ['FEED_ENDED', 'FEED_REFUSED', 'ACCESS_DENIED', 'APPLICATION_UNKNOWN'].includes(error.code)) {
          this.#fail(error);
          return;
        }
        this.#reason = messageOf(error);
      }
      this.#tell();
      await delay(pause * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {});
    }
  }

  /** One connection, until it is lost. @returns whether the job has spoken. */
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
          if (isFinal) reject(new TonyError('FEED_REFUSED', `the job refuses this producer: ${reason}.`));
          else resolve(hasSpoken);
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
        if (this.#isEnded) this.#last = this.#nextSequence - 1;
      }
    }
    this.#isOver ||= over && this.#last !== null;
    if (this.#isOver) this.#connection?.close();
    this.#pump();
    this.#wake();
    this.#tell();
  }

  #cut(): void {
    if (!this.#isNumbered) return;
    let records: Uint8Array[] = [];
    let bytes = 0;
    const push = (): void => {
      if (records.length === 0) return;
      this.#chunks.push({ sequence: this.#nextSequence++, records, bytes });
      this.#bytes += bytes;
      [records, bytes] = [[], 0];
    };
    // There may be more than one message can hold: of a producer that had no numbers yet.
    for (const record of this.#records) {
      const cost = record.length + RECORD_COST;
      if (records.length >= CHUNK_RECORDS || bytes + cost > CHUNK_BYTES) push();
      records.push(record);
      bytes += cost;
    }
    push();
    this.#records = [];
    this.#recordBytes = 0;
    this.#pump();
  }

  /** Sends what may be sent: as much as the job takes, and as the connection does. */
  #pump(): void {
    const connection = this.#connection;
    if (connection === null || this.#sendFrom === null) return;
    let under = 0;
    for (const chunk of this.#chunks) {
      under += chunk.bytes;
      if (chunk.sequence < this.#sendFrom) continue;
      // One chunk may be larger than the window; but where there is no room at all, it waits for some.
      if (under > this.#window && (under > chunk.bytes || this.#window === 0)) return;
      if (connection.isFull) return;
      this.#sendFrom = chunk.sequence + 1;
      connection.send({ chunk: { sequence: chunk.sequence, records: chunk.records } });
    }
    if (this.#last === null || this.#endSent || this.#sendFrom <= this.#last) return;
    this.#endSent = true;
    connection.send({ ending: { last: this.#last } });
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure;
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
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  #tell(): void {
    if (this.#options.onProgress === undefined || this.#telling !== null) return;
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
