import { TonyError } from '../../platform/errors.ts';

/** The answer to a reader. */
export type Taken = { readonly records: readonly Uint8Array[] } | 'wait' | 'over';

/** Identifies a chunk of records: the producer's ID and the chunk's number. */
type ChunkId = readonly [producer: string, sequence: number];

interface Producer {
  /** Every chunk up to this one has been received by this process. */
  received: number;
  /** Every chunk up to this one has been consumed; `takenAhead` holds consumed chunks beyond it. */
  taken: number;
  readonly takenAhead: Set<number>;
  /** Number of the producer's last chunk; null until the producer reports it. */
  last: number | null;
  bytes: number;
}

interface Reader {
  /** Number of the reader's newest request. The next request confirms the previous answer. */
  at: number;
  given: readonly ChunkId[];
}

/** The stored state. The records themselves stay with their producers until they are consumed. */
export interface StoredFeed {
  readonly producers: readonly {
    readonly id: string;
    readonly taken: number;
    readonly takenAhead: readonly number[];
    readonly last: number | null;
  }[];
  readonly readers: readonly { readonly id: string; readonly at: number; readonly given: readonly ChunkId[] }[];
}

/** Maximum size of an answer, unless a single chunk is larger. */
const ANSWER_BYTES = 1024 * 1024;
/** Maximum number of producers, including those that have ended, because the end of the feed depends on them. */
const MAXIMUM_PRODUCERS = 10_000;

/**
 * A queue of records between the producers of a feed and the workers that read it. It delivers each chunk to exactly one reader. Producers
 * keep a chunk until it is consumed, and resend it to the next attempt of the ApplicationMaster. A repeated request gets the same answer,
 * also from the next attempt, because assignments are stored. Readers are responsible for the records that they have consumed.
 */
export class FeedQueue {
  readonly #producers = new Map<string, Producer>();
  readonly #readers = new Map<string, Reader>();
  readonly #chunks = new Map<string, readonly Uint8Array[]>();
  #queue: ChunkId[] = [];
  /** Location of each chunk that is not consumed. */
  readonly #places = new Map<string, 'queued' | 'given'>();
  #bytes = 0;

  static restore({ producers, readers }: StoredFeed): FeedQueue {
    const feed = new FeedQueue();
    for (const { id, taken, takenAhead, last } of producers) {
      feed.#producers.set(id, { received: taken, taken, takenAhead: new Set(takenAhead), last, bytes: 0 });
    }
    for (const { id, at, given } of readers) {
      feed.#readers.set(id, { at, given });
      for (const chunk of given) {
        feed.#places.set(keyOf(chunk), 'given');
      }
    }
    return feed;
  }

  store(): StoredFeed {
    return {
      producers: [...this.#producers].map(([id, { taken, takenAhead, last }]) => ({ id, taken, takenAhead: [...takenAhead], last })),
      readers: [...this.#readers].map(([id, { at, given }]) => ({ id, at, given })),
    };
  }

  /**
   * Registers a producer that connects or reconnects.
   * @param first the first chunk that the producer holds. All earlier chunks have been consumed. Any number is valid.
   * @returns the number of the chunk that the producer should send next.
   */
  open(id: string, first: number): number {
    let producer = this.#producers.get(id);
    if (producer === undefined) {
      if (this.#producers.size >= MAXIMUM_PRODUCERS) {
        throw new TonyError('USAGE', `the feed already has the maximum of ${MAXIMUM_PRODUCERS} producers`);
      }
      producer = { received: 0, taken: 0, takenAhead: new Set(), last: null, bytes: 0 };
      this.#producers.set(id, producer);
    }
    this.#passOver(id, producer, first - 1);
    producer.received = Math.max(producer.received, first - 1);
    // A producer that has ended reports its end again. If it does not, another process continues under the same ID.
    producer.last = null;
    return producer.received + 1;
  }

  /**
   * Adds a chunk.
   * @returns false if the chunk was received before.
   * @throws TonyError DATA_INVALID if an earlier chunk is missing.
   */
  put(id: string, sequence: number, records: readonly Uint8Array[]): boolean {
    const producer = this.#known(id);
    if (sequence <= producer.received) {
      return false;
    }
    if (sequence !== producer.received + 1) {
      throw new TonyError('DATA_INVALID', `chunk ${sequence} arrived after chunk ${producer.received}: chunks in between are missing`);
    }
    producer.received = sequence;
    if (isTaken(producer, sequence)) {
      return false;
    }
    this.#chunks.set(keyOf([id, sequence]), records);
    this.#count(producer, bytesOf(records));
    const key = keyOf([id, sequence]);
    if (!this.#places.has(key)) {
      this.#queue.push([id, sequence]);
      this.#places.set(key, 'queued');
    }
    return true;
  }

  /**
   * Records the producer's last chunk.
   * @returns true if it was not known before.
   */
  end(id: string, last: number): boolean {
    const producer = this.#known(id);
    const isNew = producer.last === null;
    producer.last = last;
    return isNew;
  }

  /**
   * Returns the answer to the reader's request with number `at`.
   * @param producers number of producers that must at least have ended before the feed is over.
   * @returns the answer, and whether it may be sent only after the current state is stored.
   */
  take(id: string, at: number, producers: number): { readonly answer: Taken; readonly isNew: boolean } {
    let reader = this.#readers.get(id);
    if (reader === undefined) {
      reader = { at, given: [] };
      this.#readers.set(id, reader);
    }
    // The request is outdated: the reader no longer waits for the answer.
    if (at < reader.at) {
      return { answer: 'wait', isNew: false };
    }
    if (at > reader.at) {
      for (const chunk of reader.given) {
        this.#markTaken(chunk);
      }
      reader.at = at;
      reader.given = [];
    }
    let isNew = false;
    if (reader.given.length === 0) {
      reader.given = this.#next();
      isNew = reader.given.length > 0;
    }
    if (reader.given.length === 0) {
      return { answer: this.isOver(producers) ? 'over' : 'wait', isNew: false };
    }
    const records: Uint8Array[] = [];
    for (const chunk of reader.given) {
      const held = this.#chunks.get(keyOf(chunk));
      // The records have not reached this attempt yet. The producer resends them.
      if (held === undefined && !this.#isTaken(chunk)) {
        return { answer: 'wait', isNew };
      }
      records.push(...(held ?? []));
    }
    return { answer: { records }, isNew };
  }

  /** Takes back the unconfirmed chunks of readers that are no longer running. */
  forget(isGone: (reader: string) => boolean): boolean {
    let found = false;
    for (const [id, { given }] of this.#readers) {
      if (!isGone(id)) {
        continue;
      }
      this.#readers.delete(id);
      const back = given.filter((chunk) => !this.#isTaken(chunk));
      for (const chunk of back) {
        this.#places.set(keyOf(chunk), 'queued');
      }
      this.#queue = [...back, ...this.#queue];
      found = true;
    }
    return found;
  }

  /** True if all producers have ended and all of their chunks are assigned. */
  isOver(producers: number): boolean {
    const all = [...this.#producers.values()];
    return (
      all.length >= producers &&
      this.#queue.length === 0 &&
      all.every(({ last, received, taken }) => last !== null && Math.max(received, taken) >= last)
    );
  }

  takenOf(id: string): number {
    return this.#known(id).taken;
  }

  /** True if the producer has reported its last chunk and all of its chunks are consumed. */
  isDone(id: string): boolean {
    const { last, taken } = this.#known(id);
    return last !== null && taken >= last;
  }

  /** Bytes held for a producer. */
  bytesOf(id: string): number {
    return this.#known(id).bytes;
  }

  /** True if a reader waits for the records of this chunk or of a later chunk of the producer. */
  isAwaited(id: string, sequence: number): boolean {
    const isMissing = (chunk: ChunkId): boolean =>
      chunk[0] === id && chunk[1] >= sequence && !this.#chunks.has(keyOf(chunk)) && !this.#isTaken(chunk);
    return [...this.#readers.values()].some(({ given }) => given.some(isMissing));
  }

  /** Bytes held for all producers, including those that have disconnected. */
  get bytes(): number {
    return this.#bytes;
  }

  get readers(): number {
    return this.#readers.size;
  }

  #next(): ChunkId[] {
    const given: ChunkId[] = [];
    // A reader gets at most its share of the available chunks.
    const most = Math.ceil(this.#queue.length / Math.max(1, this.#readers.size));
    let bytes = 0;
    for (const chunk of this.#queue) {
      const records = this.#chunks.get(keyOf(chunk));
      // The records are missing, because an earlier attempt received them. The producer resends this chunk and all later chunks.
      if (records === undefined) {
        continue;
      }
      const size = bytesOf(records);
      if (given.length > 0 && bytes + size > ANSWER_BYTES) {
        break;
      }
      given.push(chunk);
      bytes += size;
      if (given.length >= most) {
        break;
      }
    }
    for (const chunk of given) {
      this.#places.set(keyOf(chunk), 'given');
    }
    if (given.length > 0) {
      this.#queue = this.#queue.filter((chunk) => this.#places.get(keyOf(chunk)) === 'queued');
    }
    return given;
  }

  #markTaken([id, sequence]: ChunkId): void {
    const producer = this.#known(id);
    const key = keyOf([id, sequence]);
    this.#count(producer, -bytesOf(this.#chunks.get(key) ?? []));
    this.#chunks.delete(key);
    if (this.#places.get(key) === 'queued') {
      this.#queue = this.#queue.filter(([other, number]) => other !== id || number !== sequence);
    }
    this.#places.delete(key);
    if (sequence > producer.taken) {
      producer.takenAhead.add(sequence);
    }
    while (producer.takenAhead.delete(producer.taken + 1)) {
      producer.taken++;
    }
  }

  #count(producer: Producer, bytes: number): void {
    producer.bytes += bytes;
    this.#bytes += bytes;
  }

  /** Marks every chunk up to `last` as consumed. */
  #passOver(id: string, producer: Producer, last: number): void {
    if (last <= producer.taken) {
      return;
    }
    producer.taken = last;
    for (const sequence of producer.takenAhead) {
      if (sequence <= last) {
        producer.takenAhead.delete(sequence);
      }
    }
    const known = [...this.#queue, ...[...this.#readers.values()].flatMap(({ given }) => given)];
    for (const chunk of known) {
      if (chunk[0] === id && chunk[1] <= last) {
        this.#markTaken(chunk);
      }
    }
    while (producer.takenAhead.delete(producer.taken + 1)) {
      producer.taken++;
    }
  }

  #isTaken([id, sequence]: ChunkId): boolean {
    return isTaken(this.#known(id), sequence);
  }

  #known(id: string): Producer {
    const producer = this.#producers.get(id);
    if (producer === undefined) {
      throw new TonyError('INTERNAL', `the feed does not know producer ${id}`);
    }
    return producer;
  }
}

function isTaken({ taken, takenAhead }: Producer, sequence: number): boolean {
  return sequence <= taken || takenAhead.has(sequence);
}

function keyOf([producer, sequence]: ChunkId): string {
  return `${sequence} ${producer}`;
}

/** The memory that records occupy, in bytes: each record has an overhead in addition to its content. */
export function bytesOf(records: readonly Uint8Array[]): number {
  return records.reduce((sum, { length }) => sum + length + 64, 0);
}
