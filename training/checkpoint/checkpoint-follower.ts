import { pause } from '../../platform/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type CheckpointStore, isDamage, type StoredCheckpoint } from './checkpoint-store.ts';

export interface FollowOptions {
  /** The polling interval, in ms; 2 s by default. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  /** The loop ends when this application's program has ended; with null, when any application's program has ended. */
  readonly applicationId: string | null;
  /** Restricts the checkpoints to those of this phase; all phases by default. */
  readonly phase?: string;
  readonly onTrouble: (message: string) => void;
}

/**
 * Yields the newest checkpoint each time a new one appears; older ones that appeared since the last poll are skipped. Ends when the program
 * that writes the checkpoints has ended. A damaged checkpoint is skipped and reported to `onTrouble`, but only after two failed polls in a
 * row, because a checkpoint is missing for a moment while it is replaced. Waits while storage is unreachable.
 */
export async function* followCheckpoints(store: CheckpointStore, options: FollowOptions): AsyncGenerator<StoredCheckpoint, void> {
  const seen: Seen = { last: null, doubtful: new Set() };
  const reported = new Set<string>();
  const report = (message: string) => {
    if (!reported.has(message)) {
      reported.add(message);
      options.onTrouble(message);
    }
  };
  let ends = false;
  for (;;) {
    options.signal?.throwIfAborted();
    try {
      // The end mark is read before the checkpoints are listed: in the reverse order, a checkpoint written between the two reads would be
      // missed. If checkpoints could not be read, one more poll follows.
      const hasEnded = await store.marks.hasEnded(options.applicationId);
      const found = await nextOf(store, seen, options.phase ?? null, report);
      if (found !== null) {
        seen.last = found;
        yield found;
        continue;
      }
      if (hasEnded && (ends || seen.doubtful.size === 0)) {
        return;
      }
      ends = hasEnded;
    } catch (error) {
      if (!(error instanceof TonyError && error.code === 'HDFS_UNREACHABLE')) {
        throw error;
      }
      report(`checkpoints cannot be read at the moment: ${error.message}`);
    }
    await pause(options.everyMs ?? 2000, options.signal);
  }
}

interface Seen {
  last: StoredCheckpoint | null;
  /** Steps whose checkpoints could not be read in the last poll. */
  doubtful: ReadonlySet<number>;
}

/**
 * Returns the newest intact checkpoint that is newer than the last one seen; null if there is none. Reads the tensors of the returned
 * checkpoint only.
 */
async function nextOf(
  store: CheckpointStore,
  seen: Seen,
  phase: string | null,
  onSkipped: (message: string) => void,
): Promise<StoredCheckpoint | null> {
  const { last, doubtful } = seen;
  const unread = new Set<number>();
  seen.doubtful = unread;
  for (const step of await store.steps()) {
    try {
      const { createdAt, position } = await store.manifest(step);
      if (phase !== null && position.phase.name !== phase) {
        continue;
      }
      if (last !== null && last.position.step === step && last.manifest.createdAt === createdAt) {
        return null;
      }
      if (last === null || isSince(last, step, createdAt)) {
        return await store.read(step);
      }
    } catch (error) {
      if (!isDamage(error)) {
        throw error;
      }
      unread.add(step);
      if (!doubtful.has(step)) {
        return null;
      }
      onSkipped(`checkpoint step-${step} is skipped: ${messageOf(error)}`);
    }
  }
  return null;
}

/**
 * Whether a checkpoint is newer than the last one seen. A checkpoint with a lower step is newer only if it was created later, because
 * training has then resumed from an earlier step. Otherwise, the last one seen has merely been removed.
 */
function isSince({ position, manifest }: StoredCheckpoint, step: number, createdAt: string): boolean {
  return step >= position.step || createdAt > manifest.createdAt;
}
