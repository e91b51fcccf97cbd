import type * as tfjs from '@tensorflow/tfjs';
import type { Piece } from '../protocol/layout.ts';

export interface TrainedVariable {
  /** The variable's name in the program, which is also the prefix of its slot names. */
  readonly name: string;
  /** The variable's name in checkpoints: `model:<index>:<name>`. */
  readonly tensor: string;
  readonly shape: readonly number[];
}

let created = 0;

/**
 * One parameter server's part of a variable in one run: the values of a flat piece, or only a description if other servers hold the whole
 * variable.
 */
export class ServedVariable {
  readonly described: TrainedVariable;
  /** The piece on this server, or null if other servers hold the whole variable. */
  readonly piece: Piece | null;
  readonly variable: tfjs.Variable | null;
  readonly droppedBy = new Set<number>();
  readonly #tf: typeof tfjs;
  /** For each rank, the version of the value that it holds. */
  readonly #versions = new Map<number, number>();
  #version = 0;
  #numbers: Float32Array | null = null;
  /** The initial value for ranks that register the variable later, or null if no rank needs it. */
  #initial: Float32Array | null;

  /** @param numbers the piece's values, or null for zeros. The constructor copies them. */
  constructor(tf: typeof tfjs, described: TrainedVariable, piece: Piece | null, numbers: Float32Array | null) {
    this.#tf = tf;
    this.described = described;
    this.piece = piece;
    this.#initial = numbers === null ? null : numbers.slice();
    created++;
    const name = `served-${created}`;
    this.variable =
      piece === null
        ? null
        : tf.tidy(() => tf.variable(numbers === null ? tf.zeros([piece.count]) : tf.tensor1d(numbers.slice()), true, name));
  }

  /** The piece's current values. The returned array never changes. */
  get numbers(): Float32Array {
    this.#numbers ??= (this.variable?.dataSync() as Float32Array | undefined) ?? new Float32Array(0);
    return this.#numbers;
  }

  assign(numbers: Float32Array): void {
    this.#tf.tidy(() => this.variable?.assign(this.#tf.tensor1d(numbers.slice())));
    this.changed();
  }

  changed(): void {
    this.#version++;
    this.#numbers = null;
  }

  /**
   * Records that a rank holds the variable.
   * @returns the initial value on the rank's first call if that value is still stored, otherwise the current value. With staleness 0, all
   *   workers therefore start with equal values.
   */
  enter(rank: number): Float32Array {
    const isFirst = !this.#versions.has(rank);
    this.droppedBy.delete(rank);
    this.#versions.set(rank, isFirst && this.#initial !== null ? 0 : this.#version);
    return isFirst ? (this.#initial ?? this.numbers) : this.numbers;
  }

  /** Frees the initial value. Call this method after the last rank has registered the variable. */
  forgetInitial(): void {
    this.#initial = null;
  }

  hasEntered(rank: number): boolean {
    return this.#versions.has(rank);
  }

  holds(rank: number): boolean {
    return this.#versions.has(rank) && !this.droppedBy.has(rank);
  }

  /** Returns true if the value has changed since the last answer to this rank. */
  isNewFor(rank: number): boolean {
    return this.holds(rank) && this.#versions.get(rank) !== this.#version;
  }

  taken(rank: number): void {
    this.#versions.set(rank, this.#version);
  }

  /** Frees the variable's memory on the backend. `numbers` remains readable. */
  retire(): void {
    // Copies the array, because it may be a view of backend memory that is freed below.
    this.#numbers = this.numbers.slice();
    this.#initial = null;
    this.variable?.dispose();
  }
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, dimension) => product * dimension, 1);
}
