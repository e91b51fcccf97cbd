import { randomBytes } from 'node:crypto';
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { isOver, isReported } from '../../conf/status/job-info.ts';
import { formatAddress } from '../../platform/address.ts';
import { backoffMs, jittered, pause } from '../../platform/async/backoff.ts';
import { checkOptions, type OptionNames, pickOptions } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { FEED_TOKEN_METADATA, type FeedAddress, MAXIMUM_MESSAGE_BYTES } from '../../protos/feed-protocol.ts';
import { PINNED_CHANNEL_OPTIONS, pinnedCredentials } from '../../protos/pinned-channel.ts';
import { type ClientStream, clientConstructor, onMessage, type ServiceClient } from '../../protos/services.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import { CONNECT_OPTIONS, type ConnectOptions, connectJob } from '../connections/connect-job.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { ChunkQueue, type FeedRecord, toRecordBytes } from './chunk-queue.ts';
import { checkFeedName } from './feed-name.ts';
import { type FeedPlace, openFeedPlace } from './feed-place.ts';

/** Time (ms) within which the job must send its first message on a new connection. */
const FIRST_MESSAGE_MS = 15_000;

const FeedClient = clientConstructor('Feed');

interface FeedConnectionEvents {
  readonly message: (message: TonyMessages['FeedMessage']) => void;
  /** Called when the send buffer has space again. */
  readonly room: () => void;
  /** Called once, when the connection ends. If `isFinal` is true, a new connection would fail with the same error. */
  readonly lost: (reason: string, isFinal: boolean) => void;
}

/** TLS connection from a producer to the ApplicationMaster. Accepts only the job's certificate. */
class FeedConnection {
  readonly #client: ServiceClient<'Feed'>;
  readonly #stream: ClientStream<'ProducerMessage', 'FeedMessage'>;
  readonly #deadline: NodeJS.Timeout;
  #isOver = false;

  constructor(address: FeedAddress, opening: TonyMessages['Opening'], events: FeedConnectionEvents) {
    this.#client = new FeedClient(formatAddress(address), pinnedCredentials(address.certificate), {
      ...PINNED_CHANNEL_OPTIONS,
      'grpc.max_send_message_length': MAXIMUM_MESSAGE_BYTES,
    });
    const metadata = new Metadata();
    metadata.set(FEED_TOKEN_METADATA, address.token);
    this.#stream = this.#client.Put(metadata);
    const lose = (reason: string, isFinal = false): void => {
      if (this.#isOver) {
        return;
      }
      this.close();
      events.lost(reason, isFinal);
    };
    this.#deadline = setTimeout(() => lose(`no answer within ${FIRST_MESSAGE_MS / 1000} s`), FIRST_MESSAGE_MS);
    onMessage(this.#stream, (message) => {
      clearTimeout(this.#deadline);
      if (!this.#isOver) {
        events.message(message);
      }
    });
    this.#stream.on('error', (error: ServiceError) => {
      const isFinal = error.code === status.UNAUTHENTICATED || error.code === status.INVALID_ARGUMENT;
      lose(error.details || error.message, isFinal);
    });
    this.#stream.on('drain', () => events.room());
    this.#stream.on('end', () => lose('the job closed the connection'));
    this.#stream.write({ opening });
  }

  /** Whether the send buffer is full. When the buffer has space again, `room` is called. */
  get isFull(): boolean {
    return this.#stream.writableNeedDrain;
  }

  send(message: TonyMessages['ProducerMessage']): void {
    if (!this.#isOver) {
      this.#stream.write(message);
    }
  }

  close(): void {
    if (this.#isOver) {
      return;
    }
    this.#isOver = true;
    clearTimeout(this.#deadline);
    this.#stream.on('error', () => {});
    this.#stream.cancel();
    this.#client.close();
  }
}

export interface FeedProgress {
  /**
   * State of the feed. `waiting` means that the job does not accept records yet or is unreachable, `connected` that the job accepts
   * records, `full` that the job's buffers are full, and `over` that the feed has ended.
   */
  readonly state: 'waiting' | 'connected' | 'full' | 'over';
  /** Why no records are being sent, without a final period. Empty while records are being sent. */
  readonly reason: string;
  /** Number of records passed to `write`. */
  readonly written: number;
  /** Number of records that workers have acknowledged. */
  readonly taken: number;
  /** Number of records that the job has received from earlier processes with this producer's name. */
  readonly receivedBefore: number;
  readonly readers: number;
}

export interface FeedOptions extends ConnectOptions {
  /**
   * Name of this producer. Default: a random name. The feed ends when all producers have called `end`. If a producer crashes before that, a
   * new process with the same name can continue or end the feed: `received` returns the number of records that the job already has.
   */
  readonly producer?: string;
  /** Receives the progress whenever it has changed, but at most a few times per second. */
  readonly onProgress?: (progress: FeedProgress) => void;
  readonly signal?: AbortSignal;
}

const FEED_OPTIONS: OptionNames<FeedOptions> = { ...CONNECT_OPTIONS, producer: true, onProgress: true, signal: true };

/** Window size (bytes) to use until the job announces its own. */
const FIRST_WINDOW_BYTES = 1024 * 1024;
const BACKOFF = { firstMs: 200, mostMs: 2_000 };
/** Interval (ms) at which the client checks whether an unreachable job has ended. */
const CHECK_EVERY_MS = 2_000;
const PROGRESS_MS = 250;

/**
 * Opens a feed to a running job. The program in the job reads the records with `data.fromFeed(name)`. Exactly one worker receives each record.
 * After the connection is lost or the ApplicationMaster restarts, the client resends the records that no worker has acknowledged. While the
 * job's buffers are full, `write` waits without a timeout.
 * @param name name of the feed in the program
 * @throws TonyError USAGE, JOB_NOT_FOUND. When the job has ended, `write` and `end` throw FEED_ENDED with its result. They can also
 *   throw FEED_DENIED and ACCESS_DENIED
 */
export async function openFeed(jobId: string, name: string, options: FeedOptions = {}): Promise<FeedWriter> {
  checkOptions('openFeed', options, FEED_OPTIONS);
  const producer = options.producer ?? randomBytes(8).toString('hex');
  checkFeedName(name, 'feed');
  checkFeedName(producer, 'producer');
  const connection = await connectJob(jobId, pickOptions<ConnectOptions>(options, CONNECT_OPTIONS));
  try {
    const job = await connection.observe();
    if (isOver(job)) {
      throw new TonyError('FEED_ENDED', `${jobId} has already ended: ${job.state}.`);
    }
    return new FeedWriter(connection, await openFeedPlace(jobId, options), name, producer, options);
  } catch (error) {
    connection.close();
    throw error;
  }
}

export class FeedWriter {
  readonly #job: JobConnection;
  readonly #place: FeedPlace;
  readonly #feed: string;
  /** Name of this producer. A process with the same name can continue the feed. */
  readonly producer: string;
  readonly #options: FeedOptions;
  readonly #closing = new AbortController();
  readonly #work: Promise<void>;
  readonly #queue: ChunkQueue;
  #isEnded = false;
  #endSent = false;
  #window = FIRST_WINDOW_BYTES;
  #connection: FeedConnection | null = null;
  /** Sequence number of the next chunk to send. Null until the job has reported which number it expects. */
  #sendFrom: number | null = null;
  #isOver = false;
  #failure: unknown = null;
  #reason = 'connecting to the job';
  #readers = 0;
  #written = 0;
  #taken = 0;
  /** Number of records that the job has received from earlier processes with this producer's name. Null before the job's first message. */
  #receivedBefore: number | null;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #reportTimer: NodeJS.Timeout | null = null;
  readonly #waiting = new Set<() => void>();

  constructor(job: JobConnection, place: FeedPlace, feed: string, producer: string, options: FeedOptions) {
    this.#job = job;
    this.#place = place;
    this.#feed = feed;
    this.producer = producer;
    this.#options = options;
    this.#queue = new ChunkQueue(options.producer === undefined);
    this.#receivedBefore = options.producer === undefined ? 0 : null;
    const abort = (): void => this.#fail(options.signal?.reason);
    if (options.signal?.aborted === true) {
      abort();
    } else {
      options.signal?.addEventListener('abort', abort, { once: true });
    }
    this.#work = this.#run().finally(() => options.signal?.removeEventListener('abort', abort));
  }

  /**
   * Adds a record. Resolves when the buffer has space for the next record. Await each call to limit memory use. The caller may reuse the
   * record's buffer immediately.
   * @throws TonyError USAGE for an unsupported value, for a record that is too large, and after `end`
   */
  async write(record: FeedRecord): Promise<void> {
    const bytes = toRecordBytes(record);
    if (this.#isEnded) {
      throw new TonyError('USAGE', 'The feed has ended and accepts no more records.');
    }
    this.#throwFailure();
    this.#written++;
    const state = this.#queue.add(bytes);
    if (state === 'full') {
      this.#cut();
    } else if (state === 'begun') {
      // Combine the records that are written in the same turn of the event loop into a chunk.
      setImmediate(() => this.#cut());
    }
    while (this.#queue.bytes > this.#window && this.#failure === null) {
      await this.#changed();
    }
    this.#throwFailure();
  }

  /**
   * Returns the number of records that the job has received from earlier processes with this producer's name. A producer that sends the
   * same records in the same order as a crashed process skips this number of records. Resolves when the job has answered.
   */
  async received(): Promise<number> {
    while (this.#receivedBefore === null && this.#failure === null) {
      await this.#changed();
    }
    this.#throwFailure();
    return this.#receivedBefore ?? 0;
  }

  /** Ends the feed for this producer. Resolves when workers have acknowledged all records. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#cut();
    while (!this.#isOver && this.#failure === null) {
      await this.#changed();
    }
    await this.#close();
    this.#throwFailure();
  }

  /**
   * Closes the connection without ending the feed. The job then waits for another producer with the same name. Unacknowledged records may
   * be lost.
   */
  async close(): Promise<void> {
    this.#failure ??= new TonyError('USAGE', 'The feed was closed.');
    await this.#close();
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    this.#connection?.close();
    this.#wake();
    await this.#work;
    if (this.#reportTimer !== null) {
      clearTimeout(this.#reportTimer);
    }
    this.#reportTimer = null;
    this.#reportNow();
    this.#place.close();
    this.#job.close();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let checkedAt = Number.NEGATIVE_INFINITY;
    for (let failures = 1; !signal.aborted && !this.#isOver; failures++) {
      try {
        const address = await this.#place.read();
        // The caller may have called `close` while the address was being read.
        if (signal.aborted) {
          break;
        }
        if (address !== null && (await this.#connect(address))) {
          failures = 1;
        } else if (address === null) {
          this.#reason = 'the job does not accept feeds yet';
        }
        if (signal.aborted || this.#isOver) {
          break;
        }
        if (performance.now() - checkedAt > CHECK_EVERY_MS) {
          const job = await this.#job.observe();
          checkedAt = performance.now();
          if (isOver(job)) {
            const why = job.message === '' ? '' : `: ${job.message}`;
            throw new TonyError('FEED_ENDED', `${job.id} ended (${job.state}) before it received all records${why}`);
          }
          if (!isReported(job)) {
            this.#reason = 'the job is waiting for containers';
          }
        }
      } catch (error) {
        if (error instanceof TonyError && ['FEED_ENDED', 'FEED_DENIED', 'ACCESS_DENIED', 'JOB_NOT_FOUND'].includes(error.code)) {
          this.#fail(error);
          return;
        }
        this.#reason = messageOf(error);
      }
      this.#report();
      await pause(jittered(backoffMs(failures, BACKOFF)), signal);
    }
  }

  /**
   * Opens a connection. Resolves when the connection is lost.
   * @returns whether the job has sent a message on this connection
   */
  #connect(address: FeedAddress): Promise<boolean> {
    const opening = {
      feed: this.#feed,
      producer: this.producer,
      first: this.#queue.first,
      records: (this.#receivedBefore ?? 0) + this.#taken,
    };
    return new Promise((resolve, reject) => {
      let hasMessage = false;
      const stop = (): void => resolve(hasMessage);
      this.#sendFrom = null;
      this.#connection = new FeedConnection(address, opening, {
        message: (message) => {
          hasMessage = true;
          this.#receive(message);
        },
        room: () => this.#pump(),
        lost: (reason, isFinal) => {
          this.#closing.signal.removeEventListener('abort', stop);
          this.#connection = null;
          this.#reason = reason;
          if (isFinal) {
            reject(new TonyError('FEED_DENIED', `The job rejected this producer: ${reason}.`));
          } else {
            resolve(hasMessage);
          }
        },
      });
      this.#closing.signal.addEventListener('abort', stop, { once: true });
    });
  }

  #receive({ expected = 0, records = 0, taken, windowBytes, over, readers }: TonyMessages['FeedMessage']): void {
    this.#receivedBefore ??= records;
    this.#readers = readers;
    this.#window = windowBytes;
    this.#taken += this.#queue.acknowledge(taken);
    if (this.#sendFrom === null) {
      this.#sendFrom = Math.max(1, expected);
      this.#endSent = false;
      this.#queue.numberFrom(this.#sendFrom);
    }
    this.#isOver ||= over && this.#last !== null;
    if (this.#isOver) {
      this.#connection?.close();
    }
    this.#pump();
    this.#wake();
    this.#report();
  }

  #cut(): void {
    this.#queue.cut();
    this.#pump();
  }

  /** Sequence number of this producer's last chunk. Null before `end` is called, or while chunks are not numbered yet. */
  get #last(): number | null {
    return this.#isEnded ? this.#queue.last : null;
  }

  #pump(): void {
    const connection = this.#connection;
    if (connection === null || this.#sendFrom === null) {
      return;
    }
    for (const { sequence, records } of this.#queue.within(this.#window, this.#sendFrom)) {
      if (connection.isFull) {
        return;
      }
      this.#sendFrom = sequence + 1;
      connection.send({ chunk: { sequence, records } });
    }
    const last = this.#last;
    if (last !== null && !this.#endSent && this.#sendFrom > last) {
      this.#endSent = true;
      connection.send({ ending: { last } });
    }
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

  #report(): void {
    if (this.#options.onProgress === undefined || this.#reportTimer !== null) {
      return;
    }
    const pause = Math.max(0, this.#reportedAt + PROGRESS_MS - performance.now());
    this.#reportTimer = setTimeout(() => {
      this.#reportTimer = null;
      this.#reportNow();
    }, pause);
  }

  #reportNow(): void {
    this.#reportedAt = performance.now();
    const isConnected = this.#connection !== null && this.#sendFrom !== null;
    const isFull = this.#queue.bytes > this.#window;
    const unread = this.#readers === 0 ? `no worker is reading the feed ${this.#feed} yet` : '';
    this.#options.onProgress?.({
      state: this.#isOver ? 'over' : !isConnected ? 'waiting' : isFull ? 'full' : 'connected',
      reason: this.#isOver ? '' : isConnected ? unread : this.#reason,
      written: this.#written,
      taken: this.#taken,
      receivedBefore: this.#receivedBefore ?? 0,
      readers: this.#readers,
    });
  }
}
