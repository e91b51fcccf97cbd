import { counted } from '../../conf/values/quantities.ts';
import type {
  DoorAddress,
  FeedOpening,
  FeedPlan,
  NeededPiece,
  PartitionPiece,
  PieceFacts,
  RankPieces,
  RankReport,
} from '../../contract/partitions/partition-feed.ts';
import { TonyError } from '../../platform/errors.ts';
import { equalShards } from './equal-shards.ts';

/** Maximum number of pieces that one rank gets before it has read earlier ones, with balanced shards. */
const MAXIMUM_AHEAD = 8;
/** Maximum number of unassigned partitions in a plan. */
const MAXIMUM_OFFERED = 1_000;
/** Maximum number of pieces in one answer. The executor requests the others with its next report. */
const MAXIMUM_PIECES = 5_000;
const NONE: ReadonlySet<number> = new Set();

interface Rank {
  readonly pieces: PartitionPiece[];
  readonly facts: (PieceFacts | null)[];
  /** What the rank's executor has reported. Not stored, because each executor repeats it. */
  wanted: ReadonlySet<number>;
  door: DoorAddress | null;
  /** See RankReport. */
  unread: number | null;
  known: number;
}

/** The stored state. Pieces and facts are arrays, because a feed may have many of them. */
export interface StoredPartitionFeed {
  readonly opening: FeedOpening;
  readonly ranks: readonly {
    readonly pieces: readonly (readonly [partition: number, from: number, to: number | null])[];
    readonly facts: readonly (readonly [records: number, digest: string] | null)[];
  }[];
}

/**
 * Assigns the partitions of one feed to ranks. Uses neither a clock nor the network. An assignment never changes: after a failure, the rank
 * reads the same pieces in the same order, so that it continues from its checkpoint as if nothing had happened.
 */
export class PartitionFeed {
  readonly opening: FeedOpening;
  readonly #ranks: readonly Rank[];
  /** Partitions that belong to ranks. */
  readonly #assigned: Set<number>;
  #version: number;
  /** Changes whenever the answer to a waiting offer may change. */
  #rooms = 0;

  private constructor(opening: FeedOpening, ranks: readonly Rank[], version: number) {
    this.opening = opening;
    this.#version = version;
    this.#ranks = ranks;
    // With equal shards, partitions without records belong to no rank, and no rank needs them.
    const all = opening.shards === 'equal' ? Array.from({ length: opening.partitions }, (_, partition) => partition) : [];
    this.#assigned = new Set([...all, ...ranks.flatMap(({ pieces }) => pieces.map(({ partition }) => partition))]);
  }

  /** @throws TonyError USAGE if the opening contradicts itself, or if there are fewer partitions than ranks */
  static open(name: string, opening: FeedOpening, worldSize: number, version = 0): PartitionFeed {
    const { counts, partitions, shards, remainder } = opening;
    if (counts !== null && counts.length !== partitions) {
      throw new TonyError('USAGE', `the source of feed ${name} reports ${counts.length} sizes for ${partitions} partitions`);
    }
    if (shards === 'balanced') {
      // A feed without partitions ends at once.
      if (partitions > 0 && partitions < worldSize) {
        throw new TonyError('USAGE', `feed ${name} has ${counted(partitions, 'partition')}, which is not enough for ${worldSize} ranks`, {
          hint: "Repartition the data, for example with df.repartition(64), or use shards='equal', which divides partitions.",
        });
      }
      return new PartitionFeed(opening, emptyRanks(worldSize), version);
    }
    if (counts === null) {
      throw new TonyError('USAGE', `the source of feed ${name} has not counted the records, which equal shards require`);
    }
    const ranks = equalShards(counts, worldSize, remainder).map((pieces) => ({ ...emptyRank(), pieces, facts: pieces.map(() => null) }));
    return new PartitionFeed(opening, ranks, version);
  }

  static restore({ opening, ranks }: StoredPartitionFeed, version = 0): PartitionFeed {
    const restored = ranks.map(({ pieces, facts }) => ({
      ...emptyRank(),
      pieces: pieces.map(([partition, from, to]) => ({ partition, from, to })),
      facts: facts.map((each, index) => each && { index, records: each[0], digest: each[1] }),
    }));
    return new PartitionFeed(opening, restored, version);
  }

  store(): StoredPartitionFeed {
    const ranks = this.#ranks.map(({ pieces, facts }) => ({
      pieces: pieces.map(({ partition, from, to }) => [partition, from, to] as const),
      facts: facts.map((each) => each && ([each.records, each.digest] as const)),
    }));
    return { opening: this.opening, ranks };
  }

  /** Changes whenever the answer to a waiting request of the source may change. */
  get revision(): string {
    return `${this.#version}.${this.#rooms}`;
  }

  get worldSize(): number {
    return this.#ranks.length;
  }

  /** Number of records that the job has received in the first epoch, and whether that is all. */
  get received(): { readonly records: number; readonly isAll: boolean } {
    const facts = this.#ranks.flatMap((rank) => rank.facts);
    const records = facts.reduce((sum, each) => sum + (each?.records ?? 0), 0);
    return { records, isAll: this.#isComplete && !facts.includes(null) };
  }

  /**
   * Records what an executor reports about one rank.
   * @returns the partitions that have arrived with other contents than before, and whether the state must be stored
   * @throws TonyError USAGE if the number of ranks has changed
   */
  report(report: RankReport): { readonly changed: RankPieces['changed']; readonly isNew: boolean } {
    const rank = this.#rank(report);
    const changed: RankPieces['changed'][number][] = [];
    let isNew = false;
    for (const fact of report.stored) {
      const piece = rank.pieces[fact.index];
      const before = rank.facts[fact.index];
      if (piece === undefined) {
        throw new TonyError('DATA_INVALID', `rank ${report.rank} has no piece ${fact.index}`);
      }
      const expected = piece.to === null ? fact.records : piece.to - piece.from;
      if (before == null) {
        rank.facts[fact.index] = fact;
        isNew = true;
        this.#version++;
        if (fact.records !== expected) {
          changed.push({ partition: piece.partition, before: expected, now: fact.records });
        }
      } else if (before.digest !== fact.digest) {
        changed.push({ partition: piece.partition, before: before.records, now: fact.records });
      }
    }
    this.#want(rank, new Set(report.wanted), report.door);
    this.#rooms += rank.unread === report.unread ? 0 : 1;
    rank.unread = report.unread;
    rank.known = report.known;
    return { changed, isNew };
  }

  /** Returns the answer to a report, or 'wait' if there is nothing new. Has no effect, so that a waiting report can be answered later. */
  answerTo(report: RankReport, changed: RankPieces['changed']): RankPieces | 'wait' {
    const rank = this.#rank(report);
    const pieces = rank.pieces.slice(report.known, report.known + MAXIMUM_PIECES);
    const isComplete = this.#isComplete && report.known + pieces.length === rank.pieces.length;
    if (report.wait && pieces.length === 0 && changed.length === 0 && !isComplete) {
      return 'wait';
    }
    const facts = rank.facts.slice(report.known, report.known + pieces.length);
    // Executors do not need the sizes of all partitions, which may be many.
    const opening = { ...this.opening, counts: null };
    return { opening, pieces, facts, isComplete, changed };
  }

  /** Returns the pieces that the source must send now, alternately for each rank, because ranks that train together wait for each other. */
  plan(): FeedPlan {
    const lists = this.#ranks.map((rank, number) => [...rank.wanted].flatMap((index) => neededPiece(rank, number, index)));
    const needed: NeededPiece[] = [];
    for (let place = 0; lists.some((list) => place < list.length); place++) {
      needed.push(...lists.flatMap((list) => list.slice(place, place + 1)));
    }
    const readers = this.#ranks.filter(({ door }) => door !== null).length;
    const offered = readers === 0 ? 0 : Math.min(this.opening.partitions - this.#assigned.size, MAXIMUM_OFFERED);
    const unassigned: number[] = [];
    for (let partition = 0; unassigned.length < offered; partition++) {
      if (!this.#assigned.has(partition)) {
        unassigned.push(partition);
      }
    }
    return { version: this.#version, counting: false, needed, unassigned, readers };
  }

  /**
   * A source is about to compute a partition. If no rank has it yet, assigns it to the rank that has read most of its pieces.
   * @returns the pieces to send, none if no rank needs the partition now, or 'wait' if no rank has room for it
   */
  offer(partition: number): { readonly answer: readonly NeededPiece[] | 'wait'; readonly isNew: boolean } {
    if (partition >= this.opening.partitions) {
      throw new TonyError('DATA_INVALID', `the feed has no partition ${partition}`);
    }
    if (this.#assigned.has(partition)) {
      return { answer: this.#ranks.flatMap((rank, number) => neededPieces(rank, number, partition)), isNew: false };
    }
    const rooms = this.#ranks.map((rank) => this.#roomOf(rank));
    const room = Math.max(...rooms);
    if (room <= 0) {
      return { answer: 'wait', isNew: false };
    }
    const number = rooms.reduce(
      (best, each, other) => (each === room && this.#sizeOf(other) < this.#sizeOf(best) ? other : best),
      rooms.indexOf(room),
    );
    const rank = this.#ranks[number] as Rank;
    this.#assigned.add(partition);
    const index = rank.pieces.push({ partition, from: 0, to: null }) - 1;
    rank.facts.push(null);
    rank.wanted = new Set([...rank.wanted, index]);
    return { answer: neededPiece(rank, number, index), isNew: true };
  }

  /** True if ranks cannot continue without the source. */
  get needsSource(): boolean {
    return !this.#isComplete || this.#ranks.some(({ wanted }) => wanted.size > 0);
  }

  /** Forgets an executor's requests, because its program or its container has ended. */
  leave(doors: (door: DoorAddress) => boolean): void {
    for (const rank of this.#ranks) {
      if (rank.door !== null && !doors(rank.door)) {
        this.#want(rank, NONE, null);
        rank.unread = null;
      }
    }
  }

  get #isComplete(): boolean {
    return this.#assigned.size === this.opening.partitions;
  }

  #rank({ feed, rank, worldSize }: RankReport): Rank {
    const found = this.#ranks[rank];
    if (worldSize !== this.#ranks.length || found === undefined) {
      throw new TonyError('USAGE', `feed ${feed} was divided among ${this.#ranks.length} ranks, but now there are ${worldSize}`, {
        hint: 'Set `instances` of the role to a fixed number, because the records of a feed cannot be divided again.',
      });
    }
    return found;
  }

  #sizeOf(rank: number): number {
    return (this.#ranks[rank] as Rank).pieces.length;
  }

  #want(rank: Rank, wanted: ReadonlySet<number>, door: DoorAddress | null): void {
    const isSame = rank.wanted.size === wanted.size && [...wanted].every((each) => rank.wanted.has(each));
    if (!isSame || rank.door?.port !== door?.port || rank.door?.host !== door?.host) {
      this.#version++;
    }
    rank.wanted = wanted;
    rank.door = door;
  }

  /**
   * Returns how many more partitions a rank may get. Near the end, a rank gets fewer partitions in advance, so that the last ones are left
   * for the ranks that finish first.
   */
  #roomOf({ unread, known, pieces, door }: Rank): number {
    if (unread === null || door === null) {
      return 0;
    }
    const left = this.opening.partitions - this.#assigned.size;
    return Math.min(MAXIMUM_AHEAD, Math.ceil(left / (2 * this.#ranks.length))) - unread - (pieces.length - known);
  }
}

/** Returns the pieces of a partition that a rank is ready to receive. */
function neededPieces(rank: Rank, number: number, partition: number): NeededPiece[] {
  const indices = [...rank.wanted].filter((index) => rank.pieces[index]?.partition === partition);
  return indices.flatMap((index) => neededPiece(rank, number, index));
}

function neededPiece({ pieces, door }: Rank, rank: number, index: number): NeededPiece[] {
  const piece = pieces[index];
  return piece === undefined || door === null ? [] : [{ ...piece, ...door, rank, index }];
}

function emptyRank(): Rank {
  return { pieces: [], facts: [], wanted: NONE, door: null, unread: null, known: 0 };
}

function emptyRanks(worldSize: number): Rank[] {
  return Array.from({ length: worldSize }, emptyRank);
}
