/**
 * Relates an executor's clock to the ApplicationMaster's clock, so that failures of different tasks can be ordered by the time at which they
 * happened instead of the time at which their reports arrived.
 */
export interface ExecutorClock {
  /** Smallest difference in ms between a message's arrival and its time on the executor's clock: the offset plus the shortest delay. */
  readonly offset: number;
  /** Newest time on the executor's clock until which the program is known to have been neither failed nor suspended. */
  readonly heard: number;
}

/** @param sent time on the executor's clock that a message contains. Without it, the message counts as sent when it arrived. */
export function hear(clock: ExecutorClock | null, sent: number | undefined, now: number, isWell = true): ExecutorClock {
  const time = sent ?? now - (clock?.offset ?? 0);
  const offset = Math.min(clock?.offset ?? Number.POSITIVE_INFINITY, now - time);
  return { offset, heard: isWell ? Math.max(clock?.heard ?? time, time) : (clock?.heard ?? time) };
}

/** Converts a time on the executor's clock to the ApplicationMaster's clock. */
export function masterTime({ offset }: ExecutorClock, time: number): number {
  return time + offset;
}
