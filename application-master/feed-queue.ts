import { TonyError } from '../conf/errors.ts';

/** What one answer gives to a reader. */
export type Taken = { readonly records: readonly Uint8Array[] } | 'wait' | 'over';

/** A chunk of records: its producer's id, and its number there. */
type ChunkId = readonly [producer: string, sequence: number];

interface Producer {
  /** All chunks up to this one have come, to this process. */
  received: number;
  /** All up to this one have been taken; and some beyond. */
  taken: number;
  readonly takenAhead: Set<number>;
  /** The last one that it sends; null until it says so. */
  last: number | null;
  bytes: number;
}

interface Reader {
  /** Number of its newest question. To ask the next one says that the answer before has come. */
  at: number;
  given: readonly ChunkId[];
}

/** As it is written down; the records themselves are their producers' until they are taken. */
export interface StoredFeed {
  readonly producers: readonly {
    readonly id: string;
    readonly taken: number;
    readonly takenAhead: readonly number[];
    readonly last: number | null;
  }[];
  readonly readers: readonly { readonly id: string; readonly at: number; readonly given: readonly ChunkId[] }[];
}

/** One answer holds so much, unless a single chunk is larger. */
const ANSWER_BYTES = 1024 * 1024;
/** Those that have ended are remembered too: the feed's end depends on them. */
const MAXIMUM_PRODUCERS = 10_000;

/**
 * The records of a feed between its producers and the workers that read it. Each chunk is given to one reader. A producer keeps what has not
 * been taken and sends it again to the next ApplicationMaster; a reader's question that is said again gets the same answer, also from the next
 * one, which knows what was given to whom. So nothing is lost on the way or given twice; what a reader has taken is its own affair.
 */
export class FeedQueue {
  readonly #producers = new Map<string, Producer>();
  readonly #readers = new Map<string, Reader>();
  readonly #chunks = new Map<string, readonly Uint8Array[]>();
  #queue: ChunkId[] = [];
  /** Where each chunk is that is not taken. */
  readonly #places = new Map<string, 'queued' | 'given'>();
  #bytes = 0;

  static restore({ producers, readers }: StoredFeed): FeedQueue {
    const feed = new FeedQueue();
    for (const { id, taken, takenAhead, last } of producers) {
      feed.#producers.set(id, { received: taken, taken, takenAhead: new Set(takenAhead), last, bytes: 0 });
    }
    for (const { id, at, given } of readers) {
      feed.#readers.set(id, { at, given });
      for (const chunk of given) feed.#places.set(keyOf(chunk), 'given');
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
   * A producer comes, or comes back.
   * @param first the first chunk that it has: those before are certainly taken. It may be any number: what is done does not depend on its size.
   * @returns the number of the chunk that it should send next.
   */
  open(id: string, first: number): number {
    let producer = this.#producers.get(id);
    if (producer === undefined) {
      if (this.#producers.size >= MAXIMUM_PRODUCERS)
        throw new TonyError('USAGE', `the feed has had ${MAXIMUM_PRODUCERS} producers already`);
      producer = { received: 0, taken: 0, takenAhead: new Set(), last: null, bytes: 0 };
      this.#producers.set(id, producer);
    }
    this.#passOver(id, producer, first - 1);
    producer.received = Math.max(producer.received, first - 1);
    // It says so again, if it has ended; another process of the same name may go on.
    producer.last = null;
    return producer.received + 1;
  }

  /**
   * @returns false when it has come before.
   * @throws TonyError DATA_INVALID when one before it is missing.
   */
  put(id: string, sequence: number, records: readonly Uint8Array[]): boolean {
    const producer = this.#known(id);
    if (sequence <= producer.received) return false;
    if (sequence !== producer.received + 1) throw new TonyError('DATA_INVALID', `chunk ${sequence} came after chunk ${producer.received}`);
    producer.received = sequence;
    if (isTaken(producer, sequence)) return false;
    this.#chunks.set(keyOf([id, sequence]), records);
    this.#count(producer, bytesOf(records));
    const key = keyOf([id, sequence]);
    if (!this.#places.has(key)) {
      this.#queue.push([id, sequence]);
      this.#places.set(key, 'queued');
    }
    return true;
  }

  /** @returns whether that is new. */
  end(id: string, last: number): boolean {
    const producer = this.#known(id);
    const isNew = producer.last === null;
    producer.last = last;
    return isNew;
  }

  /**
   * What a reader gets as the answer to its question number `at`.
   * @param producers the feed is not over before so many have ended.
   * @returns also whether the answer may be given only when what is known now is written down.
   */
  take(id: string, at: number, producers: number): { readonly answer: Taken; readonly isNew: boolean } {
    let reader = this.#readers.get(id);
    if (reader === undefined) {
      reader = { at, given: [] };
      this.#readers.set(id, reader);
    }
    // An old question that was late: nobody waits for its answer.
    if (at < reader.at) return { answer: 'wait', isNew: false };
    if (at > reader.at) {
      for (const chunk of reader.given) this.#markTaken(chunk);
      reader.at = at;
      reader.given = [];
    }
    let isNew = false;
    if (reader.given.length === 0) {
      reader.given = this.#next();
      isNew = reader.given.length > 0;
    }
    if (reader.given.length === 0) return { answer: this.isOver(producers) ? 'over' : 'wait', isNew: false };
    const records: Uint8Array[] = [];
    for (const chunk of reader.given) {
      const held = this.#chunks.get(keyOf(chunk));
      // Its producer will send it again to this ApplicationMaster, unless it knows already that it was taken.
      if (held === undefined && !this.#isTaken(chunk)) return { answer: 'wait', isNew };
      records.push(...(held ?? []));
    }
    return { answer: { records }, isNew };
  }

  /** Takes back what readers have not confirmed that live no more. */
  forget(isGone: (reader: string) => boolean): boolean {
    let found = false;
    for (const [id, { given }] of this.#readers) {
      if (!isGone(id)) continue;
      this.#readers.delete(id);
      const back = given.filter((chunk) => !this.#isTaken(chunk));
      for (const chunk of back) this.#places.set(keyOf(chunk), 'queued');
      this.#queue = [...back, ...this.#queue];
      found = true;
    }
    return found;
  }

  /** Everything that was sent has been given to somebody, and nothing more will come. */
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

  /** The producer has said its last chunk, and all of them are taken. */
  isDone(id: string): boolean {
    const { last, taken } = this.#known(id);
    return last !== null && taken >= last;
  }

  /** What is held of a producer's chunks. */
  bytesOf(id: string): number {
    return this.#known(id).bytes;
  }

  /** A reader has been promised this chunk, or a later one of the producer, and waits for its records. */
  isAwaited(id: string, sequence: number): boolean {
    const isMissing = (chunk: ChunkId): boolean =>
      chunk[0] === id && chunk[1] >= sequence && !this.#chunks.has(keyOf(chunk)) && !this.#isTaken(chunk);
    return [...this.#readers.values()].some(({ given }) => given.some(isMissing));
  }

  /** What is held of all of them, those included that have gone. */
  get bytes(): number {
    return this.#bytes;
  }

  get readers(): number {
    return this.#readers.size;
  }

  #next(): ChunkId[] {
    const given: ChunkId[] = [];
    // Several readers share what there is.
    const most = Math.ceil(this.#queue.length / Math.max(1, this.#readers.size));
    let bytes = 0;
    for (const chunk of this.#queue) {
      const records = this.#chunks.get(keyOf(chunk));
      // Given back without its records: its producer sends it again, and those behind it as well.
      if (records === undefined) continue;
      const size = bytesOf(records);
      if (given.length > 0 && bytes + size > ANSWER_BYTES) break;
      given.push(chunk);
      bytes += size;
      if (given.length >= most) break;
    }
    for (const chunk of given) this.#places.set(keyOf(chunk), 'given');
    if (given.length > 0) this.#queue = this.#queue.filter((chunk) => this.#places.get(keyOf(chunk)) === 'queued');
    return given;
  }

  #markTaken([id, sequence]: ChunkId): void {
    const producer = this.#known(id);
    const key = keyOf([id, sequence]);
    this.#count(producer, -bytesOf(this.#chunks.get(key) ?? []));
    this.#chunks.delete(key);
    if (this.#places.get(key) === 'queued') this.#queue = this.#queue.filter(([other, number]) => other !== id || number !== sequence);
    this.#places.delete(key);
    if (sequence > producer.taken) producer.takenAhead.add(sequence);
    while (producer.takenAhead.delete(producer.taken + 1)) producer.taken++;
  }

  #count(producer: Producer, bytes: number): void {
    producer.bytes += bytes;
    this.#bytes += bytes;
  }

  /** All chunks up to `last` are taken. */
  #passOver(id: string, producer: Producer, last: number): void {
    if (last <= producer.taken) return;
    producer.taken = last;
    for (const sequence of producer.takenAhead) if (sequence <= last) producer.takenAhead.delete(sequence);
    const known = [...this.#queue, ...[...this.#readers.values()].flatMap(({ given }) => given)];
    for (const chunk of known) if (chunk[0] === id && chunk[1] <= last) this.#markTaken(chunk);
    while (producer.takenAhead.delete(producer.taken + 1)) producer.taken++;
  }

  #isTaken([id, sequence]: ChunkId): boolean {
    return isTaken(this.#known(id), sequence);
  }

  #known(id: string): Producer {
    const producer = this.#producers.get(id);
    if (producer === undefined) throw new TonyError('INTERNAL', `the feed knows no producer ${id}`);
    return producer;
  }
}

function isTaken({ taken, takenAhead }: Producer, sequence: number): boolean {
  return sequence <= taken || takenAhead.has(sequence);
}

function keyOf([producer, sequence]: ChunkId): string {
  return `${sequence} ${producer}`;
}

/** What holding them costs: a record costs something beside its bytes. */
export function bytesOf(records: readonly Uint8Array[]): number {
  return records.reduce((sum, { length }) => sum + length + 64, 0);
}
