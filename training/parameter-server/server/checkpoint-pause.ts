import type { DelayedRequests } from './delayed-requests.ts';
import type { RunClock } from './run-clock.ts';
import type { WorkerRequest } from './worker-request.ts';

/**
 * Makes all workers pause at the same iteration while the chief (rank 0) takes a checkpoint. Used only with staleness 0. messages.ts
 * describes the messages `meet` and `part`.
 */
export class CheckpointPause {
  readonly #worldSize: number;
  readonly #clock: RunClock;
  readonly #delayed: DelayedRequests;
  /** The iteration in each rank's last `meet`. */
  readonly #met = new Map<number, number>();
  /** The iteration in the chief's last `part`. */
  #parted = -1;

  constructor(worldSize: number, clock: RunClock, delayed: DelayedRequests) {
    this.#worldSize = worldSize;
    this.#clock = clock;
    this.#delayed = delayed;
  }

  meet(request: WorkerRequest, step: number): void {
    this.#met.set(request.rank, step);
    const others = Array.from({ length: this.#worldSize }, (_, rank) => rank).filter((rank) => rank !== request.rank);
    const haveMet = () => others.every((rank) => (this.#met.get(rank) ?? -1) >= step || this.#cannotPush(rank));
    const isDue = request.rank === 0 ? haveMet : () => this.#parted >= step || this.#cannotPush(0);
    this.#delayed.when(request, isDue, () => request.answer({}));
    this.#delayed.release();
  }

  part(request: WorkerRequest, step: number): void {
    this.#parted = Math.max(this.#parted, step);
    request.answer({});
    this.#delayed.release();
  }

  /** Returns true if this rank is disconnected, has finished, or must wait for other ranks before its next push. */
  #cannotPush(rank: number): boolean {
    return this.#clock.stateOf(rank) !== 'live' || this.#delayed.isInStep(rank);
  }
}
