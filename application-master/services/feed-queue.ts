import { TonyError } from '../../platform/errors.ts';

export type Taken = { readonly records: readonly Uint8Array[] } | 'wait' | 'over';

type ChunkId = readonly [producer: string, sequence: number];

interface Producer {
  /** Number of the last chunk that this process has received. All earlier chunks have been received too. */
  received: number;
  /** All chunks up to this number have been consumed. `takenAhead` contains the numbers of later chunks that have been consumed. */
  taken: number;
  readonly takenAhead: Set<number>;
  /** Number of records in the chunks up to `taken`. */
  takenRecords: number;
  /** Number of records in each received chunk after `taken`. */
  readonly sizes: Map<number, number>;
  /** Number of the producer's last chunk, or null until the producer reports it. */
  last: number | null;
  bytes: number;
}

interface Reader {
  /** Number of the reader's newest request. Each request confirms the response to the previous one. */
  at: number;
  given: readonly ChunkId[];
}

/** The stored state. It omits the records, because producers keep them until they have been consumed. */
export interface StoredFeed {
  readonly producers: readonly {
    readonly id: string;
    readonly taken: number;
    readonly takenAhead: readonly number[];
    readonly takenRecords: number;
    /** Number of records in each chunk after `taken` that has been assigned to a reader. */
    readonly sizes: readonly (readonly [sequence: number, records: number])[];
    readonly last: number | null;
  }[];
  readonly readers: readonly { readonly id: string; readonly at: number; readonly given: readonly ChunkId[] }[];
}

/** Maximum size of a response in bytes. A single chunk may be larger. */
const ANSWER_BYTES = 1024 * 1024;
/** Maximum number of producers per feed, including producers that have finished. */
const MAXIMUM_PRODUCERS = 10_000;

/**
 * A queue that passes records from a feed's producers to the workers that read the feed. Each chunk goes to exactly one reader. Producers
 * keep a chunk until it has been consumed, and resend it to the next ApplicationMaster attempt. The assignments are stored, so that a
 * repeated request gets the same response, even from the next attempt.
 */
export class FeedQueue {
  readonly #producers = new Map<string, Producer>();
  readonly #readers = new Map<string, Reader>();
  readonly #chunks = new Map<string, readonly Uint8Array[]>();
  #queue: ChunkId[] = [];
  readonly #places = new Map<string, 'queued' | 'given'>();
  #bytes = 0;

  static restore({ producers, readers }: StoredFeed): FeedQueue {
    const feed = new FeedQueue();
    for (const { takenAhead, sizes, id, ...counts } of producers) {
      feed.#producers.set(id, { ...counts, received: counts.taken, takenAhead: new Set(takenAhead), sizes: new Map(sizes), bytes: 0 });
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
      producers: [...this.#producers].map(([id, { taken, takenAhead, takenRecords, sizes, last }]) => {
        const assigned = [...sizes].filter(([sequence]) => this.#places.get(keyOf([id, sequence])) !== 'queued');
        return { id, taken, takenAhead: [...takenAhead], takenRecords, sizes: assigned, last };
      }),
      readers: [...this.#readers].map(([id, { at, given }]) => ({ id, at, given })),
    };
  }

  /**
   * Registers a producer that connects or reconnects.
   * @param first number of the first chunk that the producer still has; the first chunk may have any number
   * @param records number of records in the chunks before `first`
   * @returns the number of the chunk that the producer must send next
   */
  open(id: string, first: number, records: number): number {
    let producer = this.#producers.get(id);
    if (producer === undefined) {
      if (this.#producers.size >= MAXIMUM_PRODUCERS) {
        throw new TonyError('USAGE', `the feed already has the maximum of ${MAXIMUM_PRODUCERS} producers`);
      }
      producer = { received: 0, taken: 0, takenAhead: new Set(), takenRecords: 0, sizes: new Map(), last: null, bytes: 0 };
      this.#producers.set(id, producer);
    }
    this.#passOver(id, producer, first - 1, records);
    producer.received = Math.max(producer.received, first - 1, producer.taken);
    // A producer that has sent its last chunk reports that chunk's number again each time it connects. Until it does, assume that more
    // chunks follow, because another process may be using the ID.
    producer.last = null;
    return producer.received + 1;
  }

  /**
   * Adds a chunk.
   * @returns false if the chunk has been received before
   * @throws TonyError DATA_INVALID if an earlier chunk is missing
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
    if (sequence > producer.taken) {
      producer.sizes.set(sequence, records.length);
    }
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
   * Records the number of the producer's last chunk.
   * @returns true if the number is new
   */
  end(id: string, last: number): boolean {
    const producer = this.#known(id);
    const isNew = producer.last === null;
    producer.last = last;
    return isNew;
  }

  /**
   * Returns the response to a reader's request number `at`.
   * @param producers minimum number of producers that must have finished before the feed ends
   * @returns the response, and whether the state must be stored before the response is sent
   */
  take(id: string, at: number, producers: number): { readonly answer: Taken; readonly isNew: boolean } {
    let reader = this.#readers.get(id);
    if (reader === undefined) {
      reader = { at, given: [] };
      this.#readers.set(id, reader);
    }
    // The reader has already sent a newer request, so it ignores this response.
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
      // Wait until the producer resends the records, because this attempt has not received them.
      if (held === undefined && !this.#isTaken(chunk)) {
        return { answer: 'wait', isNew };
      }
      records.push(...(held ?? []));
    }
    return { answer: { records }, isNew };
  }

  /** Takes back unconfirmed chunks from readers that are no longer running. */
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

  /** Returns true if all producers have finished and all of their chunks have been assigned. */
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

  /** Returns the number of records that have been received from this producer, which a new process with its name must not send again. */
  receivedRecordsOf(id: string): number {
    const { received, takenRecords, sizes } = this.#known(id);
    return [...sizes].reduce((sum, [sequence, records]) => (sequence <= received ? sum + records : sum), takenRecords);
  }

  /** Returns true if the producer has reported its last chunk and all of its chunks have been consumed. */
  isDone(id: string): boolean {
    const { last, taken } = this.#known(id);
    return last !== null && taken >= last;
  }

  bytesOf(id: string): number {
    return this.#known(id).bytes;
  }

  /** Returns true if a reader is waiting for this chunk, or for a later chunk from the same producer. */
  isAwaited(id: string, sequence: number): boolean {
    const isMissing = (chunk: ChunkId): boolean =>
      chunk[0] === id && chunk[1] >= sequence && !this.#chunks.has(keyOf(chunk)) && !this.#isTaken(chunk);
    return [...this.#readers.values()].some(({ given }) => given.some(isMissing));
  }

  /** Number of bytes buffered for all producers, including disconnected ones. */
  get bytes(): number {
    return this.#bytes;
  }

  get readers(): number {
    return this.#readers.size;
  }

  #next(): ChunkId[] {
    const given: ChunkId[] = [];
    // Give a reader at most its share of the available chunks.
    const most = Math.ceil(this.#queue.length / Math.max(1, this.#readers.size));
    let bytes = 0;
    for (const chunk of this.#queue) {
      const records = this.#chunks.get(keyOf(chunk));
      // An earlier attempt received these records. The producer will resend them.
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
    advance(producer);
  }

  #count(producer: Producer, bytes: number): void {
    producer.bytes += bytes;
    this.#bytes += bytes;
  }

  #passOver(id: string, producer: Producer, last: number, records: number): void {
    if (last <= producer.taken) {
      return;
    }
    producer.taken = last;
    producer.takenRecords = records;
    for (const sequence of [...producer.takenAhead, ...producer.sizes.keys()]) {
      if (sequence <= last) {
        producer.takenAhead.delete(sequence);
        producer.sizes.delete(sequence);
      }
    }
    const known = [...this.#queue, ...[...this.#readers.values()].flatMap(({ given }) => given)];
    for (const chunk of known) {
      if (chunk[0] === id && chunk[1] <= last) {
        this.#markTaken(chunk);
      }
    }
    advance(producer);
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

/** Counts the chunks that follow the consumed ones and have been consumed, too. */
function advance(producer: Producer): void {
  while (producer.takenAhead.delete(producer.taken + 1)) {
    producer.taken++;
    producer.takenRecords += producer.sizes.get(producer.taken) ?? 0;
    producer.sizes.delete(producer.taken);
  }
}

function isTaken({ taken, takenAhead }: Producer, sequence: number): boolean {
  return sequence <= taken || takenAhead.has(sequence);
}

function keyOf([producer, sequence]: ChunkId): string {
  return `${sequence} ${producer}`;
}

/** Returns how much memory the records use, in bytes, including a fixed overhead per record. */
export function bytesOf(records: readonly Uint8Array[]): number {
  return records.reduce((sum, { length }) => sum + length + 64, 0);
}
