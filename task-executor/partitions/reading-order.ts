import type { FeedOpening, PartitionPiece, PieceFacts } from '../../contract/partitions/partition-feed.ts';
import { shuffledOrder } from '../../platform/random.ts';

/** A place in one rank's records. Epochs and records are counted from 0. */
export interface ReadingPosition {
  readonly epoch: number;
  /** Number of records of the epoch before this place. */
  readonly records: number;
}

/** One entry of the reading order. */
export interface ReadingPlace {
  readonly epoch: number;
  /** Position in the epoch's order. */
  readonly place: number;
}

/**
 * The order in which one rank reads its pieces. It depends only on the pieces and the seed, so that a resumed program reads the same records
 * in the same order. With balanced shards, the first epoch has the order in which the pieces were assigned, because reading begins before
 * all pieces are known.
 */
export class ReadingOrder {
  readonly #opening: FeedOpening;
  readonly #rank: number;
  readonly pieces: PartitionPiece[] = [];
  readonly facts: (PieceFacts | null)[] = [];
  isComplete = false;
  #shuffled: { readonly epoch: number; readonly order: Uint32Array } | null = null;

  constructor(opening: FeedOpening, rank: number) {
    this.#opening = opening;
    this.#rank = rank;
  }

  /**
   * Returns the index of the piece at a place. Returns 'unknown' if the piece has not been assigned yet, and 'end' after the epoch's last
   * piece.
   */
  at({ epoch, place }: ReadingPlace): number | 'unknown' | 'end' {
    const { shards, seed } = this.#opening;
    if (!this.isComplete) {
      return epoch === 0 && shards === 'balanced' && place < this.pieces.length ? place : 'unknown';
    }
    if (place >= this.pieces.length) {
      return 'end';
    }
    return seed === null || (epoch === 0 && shards === 'balanced') ? place : (this.#order(epoch, seed)[place] as number);
  }

  /** Returns the place after this one, which may not be known yet, or null after the last epoch. */
  next({ epoch, place }: ReadingPlace): ReadingPlace | null {
    return this.settle({ epoch, place: place + 1 });
  }

  /** Returns the place itself, or the beginning of the next epoch if the place turns out to be the end of its epoch. Returns null after the last epoch. */
  settle(at: ReadingPlace): ReadingPlace | null {
    if (this.at(at) !== 'end') {
      return at;
    }
    return at.epoch + 1 < this.#opening.epochs && this.pieces.length > 0 ? { epoch: at.epoch + 1, place: 0 } : null;
  }

  /**
   * Finds a position. Returns the place and the number of records to skip in its piece. Returns 'unknown' until the pieces before it are
   * known, and null if the position is the end of the last epoch.
   */
  find({ epoch, records }: ReadingPosition): { readonly at: ReadingPlace; readonly skip: number } | 'unknown' | null {
    let skip = records;
    for (let place = 0; ; place++) {
      const index = this.at({ epoch, place });
      if (index === 'unknown') {
        return skip === 0 ? { at: { epoch, place }, skip } : 'unknown';
      }
      if (index === 'end') {
        const at = this.settle({ epoch, place });
        return at && { at, skip: 0 };
      }
      const size = this.#sizeOf(index);
      if (size === null || skip < size) {
        return { at: { epoch, place }, skip };
      }
      skip -= size;
    }
  }

  #sizeOf(index: number): number | null {
    const { from, to } = this.pieces[index] as PartitionPiece;
    return this.facts[index]?.records ?? (to === null ? null : to - from);
  }

  #order(epoch: number, seed: number): Uint32Array {
    if (this.#shuffled?.epoch !== epoch) {
      this.#shuffled = { epoch, order: shuffledOrder(this.pieces.length, seed, this.#rank, epoch) };
    }
    return this.#shuffled.order;
  }
}
