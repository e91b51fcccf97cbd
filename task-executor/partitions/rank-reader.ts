import {
  type DoorAddress,
  type FeedOpening,
  MAXIMUM_WANTED,
  type PartitionPiece,
  type PieceFacts,
  type RankPieces,
  type RankReport,
} from '../../contract/partitions/partition-feed.ts';
import { anySignal } from '../../platform/async/any-signal.ts';
import { pause } from '../../platform/async/backoff.ts';
import { TonyError } from '../../platform/errors.ts';
import { ReadingOrder, type ReadingPlace, type ReadingPosition } from './reading-order.ts';
import type { ReceivedPiece, ReceivedPieces } from './received-pieces.ts';

/** Size in bytes to expect of a piece before any piece has arrived. */
const EXPECTED_BYTES = 32 * 1024 * 1024;
/** Maximum number of received pieces in one report. */
const MAXIMUM_REPORTED = 1_000;
/** Maximum time in ms to delay the answer to a program. After this time, the program repeats the request. */
const HOLD_MS = 10_000;

/** A piece for the program to read. */
export interface GivenPiece {
  readonly path: string;
  readonly epoch: number;
  readonly partition: number;
  readonly records: number;
  /** Number of the piece's records that the program has read before. */
  readonly skip: number;
}

export interface RankReaderOptions {
  readonly feed: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly door: DoorAddress;
  readonly received: ReceivedPieces;
  /** The readers that share the space for pieces, with this one. */
  readonly readers: () => readonly RankReader[];
  /** Sends a report to the ApplicationMaster. Returns null if there is no answer yet. Throws the error of the ApplicationMaster. */
  readonly report: (report: RankReport, signal: AbortSignal) => Promise<RankPieces | null>;
  readonly notice: (message: string) => void;
}

/** Reads one rank's pieces of a feed: requests pieces ahead of the program, and gives them to the program in order. */
export class RankReader {
  readonly #options: RankReaderOptions;
  readonly #closing = new AbortController();
  #order: ReadingOrder | null = null;
  #opening: FeedOpening | null = null;
  /** Received pieces that the ApplicationMaster does not know yet. The program must not read them, because a resumed program finds its place by their sizes. */
  readonly #unreported = new Map<number, PieceFacts>();
  readonly #reported = new Set<number>();
  /** The position from which the program resumes. Null: the program reads no records. */
  readonly #position: ReadingPosition | null;
  #current: { readonly at: ReadingPlace; readonly skip: number } | null = null;
  #isOver = false;
  /** Number of the newest answer to the program. */
  #given = -1;
  #failure: unknown = null;
  /** Aborted and replaced whenever there is something to report. */
  #change = new AbortController();
  /** Aborted and replaced to wake the program's request. */
  #waking = new AbortController();

  constructor(options: RankReaderOptions, position: ReadingPosition | null) {
    this.#options = options;
    this.#position = position;
    void this.#run();
  }

  /** Resolves with the feed's opening, or null if the feed has not been opened in time. */
  async opened(signal: AbortSignal): Promise<FeedOpening | null> {
    return await this.#until(() => this.#opening, signal);
  }

  /**
   * Returns the program's piece number `at`. The request for a piece tells that the program has read the previous one.
   * @throws TonyError
   */
  async next(at: number, signal: AbortSignal): Promise<GivenPiece | 'wait' | 'over'> {
    if (at === this.#given + 1) {
      this.#given = at;
      if (at > 0) {
        this.#advance();
      }
    } else if (at !== this.#given) {
      throw new TonyError('DATA_INVALID', `a program asked for piece ${at} after piece ${this.#given}`);
    }
    return (await this.#until(() => this.#readable(), signal)) ?? 'wait';
  }

  /** Returns true if this rank waits for the piece. The ApplicationMaster may have assigned pieces that the executor does not know yet. */
  wants(index: number): boolean {
    const known = this.#order?.pieces.length ?? 0;
    return index >= known ? this.#order?.isComplete !== true : this.#wanted().wanted.includes(index);
  }

  /** The executor has received a piece. */
  stored(index: number): void {
    this.#found(index);
    this.#changed();
  }

  keyOf(index: number): string {
    const { feed, rank } = this.#options;
    return `${feed}-${rank}-${index}`;
  }

  close(): void {
    this.#closing.abort();
    this.#changed();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let known = -1;
    while (!signal.aborted && this.#failure === null) {
      try {
        const changed = anySignal([signal, this.#change.signal]);
        const stored = [...this.#unreported.values()].slice(0, MAXIMUM_REPORTED);
        const { isComplete = false, pieces = [] } = this.#order ?? {};
        // The first report about a change must be answered at once. Later ones may wait for the next change.
        const isSame = stored.length === 0 && known === pieces.length;
        known = pieces.length;
        const answer = await this.#options.report(this.#reportWith(stored, isSame), changed);
        if (answer !== null) {
          this.#merge(answer, stored);
        }
        if (isSame && isComplete && this.#unreported.size === 0) {
          await pause(HOLD_MS, changed);
        }
      } catch (error) {
        this.#failure = error;
      }
    }
    this.#wake();
  }

  #reportWith(stored: readonly PieceFacts[], wait: boolean): RankReport {
    const { feed, rank, worldSize, door } = this.#options;
    const { wanted, unread } = this.#wanted();
    return { feed, rank, worldSize, door, known: this.#order?.pieces.length ?? 0, stored: [...stored], wanted, unread, wait };
  }

  #merge({ opening, pieces, facts, isComplete, changed }: RankPieces, stored: readonly PieceFacts[]): void {
    this.#opening ??= opening;
    this.#order ??= new ReadingOrder(opening, this.#options.rank);
    const order = this.#order;
    pieces.forEach((piece, place) => {
      order.facts.push(facts[place] ?? null);
      // An earlier program of this container may have received the piece.
      this.#found(order.pieces.push(piece) - 1);
    });
    for (const fact of stored.filter(({ index }) => index < order.pieces.length)) {
      this.#unreported.delete(fact.index);
      this.#reported.add(fact.index);
      order.facts[fact.index] = fact;
    }
    order.isComplete = isComplete;
    for (const { partition, before, now } of changed) {
      const difference = before === now ? `other contents, or another order of its ${now} records` : `${now} records instead of ${before}`;
      this.#options.notice(
        `partition ${partition} of feed ${this.#options.feed} was computed again with ${difference}: some records may be trained twice or not at all; to avoid this, persist the data in the source (df.persist())`,
      );
    }
    this.#evict();
    this.#wake();
  }

  #found(index: number): void {
    const piece = this.#options.received.get(this.keyOf(index));
    if (piece === undefined) {
      return;
    }
    if (this.#order?.facts[index]?.digest === piece.digest) {
      this.#reported.add(index);
    } else {
      this.#unreported.set(index, { index, records: piece.records, digest: piece.digest });
    }
  }

  /** Returns the current piece if the program can read it. Passes over pieces without records, which are empty files. */
  #readable(): GivenPiece | 'over' | null {
    for (;;) {
      this.#locate();
      const order = this.#order;
      if (this.#isOver) {
        return 'over';
      }
      if (order === null || this.#current === null) {
        return null;
      }
      const { at, skip } = this.#current;
      const index = order.at(at);
      const piece = typeof index !== 'number' || !this.#reported.has(index) ? undefined : this.#options.received.get(this.keyOf(index));
      if (piece === undefined) {
        return null;
      }
      if (piece.records > 0) {
        const { partition } = order.pieces[index as number] as PartitionPiece;
        return { path: piece.file, epoch: at.epoch, partition, records: piece.records, skip };
      }
      this.#advance();
    }
  }

  /**
   * Finds the position from which the program resumes, as soon as the pieces before it are known. Moves on to the next epoch when all pieces
   * of this one are known to have been read.
   */
  #locate(): void {
    if (this.#order === null || this.#isOver || this.#position === null) {
      return;
    }
    const at = this.#current === null ? null : this.#order.settle(this.#current.at);
    const found =
      this.#current === null ? this.#order.find(this.#position) : at && { at, skip: at === this.#current.at ? this.#current.skip : 0 };
    if (found === null) {
      this.#isOver = true;
    } else if (found !== 'unknown') {
      this.#current = found;
    }
  }

  #advance(): void {
    const order = this.#order;
    if (order === null || this.#current === null || this.#isOver) {
      return;
    }
    const next = order.next(this.#current.at);
    this.#isOver = next === null;
    this.#current = next && { at: next, skip: 0 };
    this.#evict();
    this.#changed();
  }

  /**
   * Returns the pieces to request, as far as there is space for them, in reading order. The next piece is always among them, however large
   * it is.
   */
  #wanted(): { readonly wanted: number[]; readonly unread: number | null; readonly kept: ReadonlySet<number> } {
    this.#locate();
    const order = this.#order;
    const kept = new Set<number>();
    const wanted: number[] = [];
    if (order === null || this.#opening === null || this.#current === null || this.#isOver) {
      return { wanted, unread: null, kept };
    }
    const { received, readers } = this.#options;
    const limit = this.#opening.cacheBytes / Math.max(1, readers().filter((each) => !each.#isOver).length);
    let bytes = 0;
    let at: ReadingPlace | null = this.#current.at;
    let unread = 0;
    for (let seen = 0; at !== null && seen <= order.pieces.length; seen++) {
      const index = order.at(at);
      if (index === 'unknown' || index === 'end') {
        return { wanted, unread: order.isComplete ? null : unread, kept };
      }
      const piece: ReceivedPiece | undefined = received.get(this.keyOf(index));
      const size = piece?.bytes ?? received.meanBytes ?? EXPECTED_BYTES;
      if (bytes > 0 && bytes + size > limit) {
        break;
      }
      bytes += kept.has(index) ? 0 : size;
      if (piece === undefined && !kept.has(index)) {
        wanted.push(index);
        if (wanted.length === MAXIMUM_WANTED) {
          break;
        }
      }
      kept.add(index);
      unread++;
      at = order.next(at);
    }
    return { wanted, unread: null, kept };
  }

  /** Removes pieces while there are too many bytes: first those of feeds that the program has read, then those that it will read last. */
  #evict(): void {
    const { received, readers } = this.#options;
    const limit = this.#opening?.cacheBytes ?? Number.POSITIVE_INFINITY;
    if (received.bytes <= limit) {
      return;
    }
    for (const other of readers().filter((each) => each.#isOver && each !== this)) {
      other.#remove(new Set(), limit);
    }
    this.#remove(this.#wanted().kept, limit);
  }

  #remove(kept: ReadonlySet<number>, limit: number): void {
    const { received } = this.#options;
    this.#order?.pieces.forEach((_, index) => {
      if (!kept.has(index) && received.bytes > limit) {
        received.remove(this.keyOf(index));
        this.#reported.delete(index);
        this.#unreported.delete(index);
      }
    });
  }

  async #until<Value>(find: () => Value | null, signal: AbortSignal): Promise<Value | null> {
    const until = performance.now() + HOLD_MS;
    for (;;) {
      if (this.#failure !== null) {
        throw this.#failure;
      }
      const found = find();
      const left = until - performance.now();
      if (found !== null || left <= 0 || signal.aborted || this.#closing.signal.aborted) {
        return found;
      }
      await pause(left, anySignal([signal, this.#closing.signal, this.#waking.signal]));
    }
  }

  #wake(): void {
    this.#waking.abort();
    this.#waking = new AbortController();
  }

  #changed(): void {
    this.#change.abort();
    this.#change = new AbortController();
    this.#wake();
  }
}
