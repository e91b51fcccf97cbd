import { pause } from '../../platform/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type CheckpointStore, isDamage, type StoredCheckpoint } from './checkpoint-store.ts';

export interface FollowOptions {
  /** The polling interval; default 2 s. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  /** Only the end of this application ends the loop; null for the end of any application. */
  readonly applicationId: string | null;
  /** Follows only the checkpoints of this phase; default: all phases. */
  readonly phase?: string;
  readonly onTrouble: (message: string) => void;
}

/**
 * Yields the newest checkpoint each time a new one appears, skipping older ones that it has missed. Ends when the program that writes them
 * has ended. Skips damaged checkpoints and reports them to `onTrouble`, but only after two failed polls in a row: a checkpoint is missing
 * for a moment while it is being replaced. Waits while storage is unreachable.
 */
export async function* followCheckpoints(store: CheckpointStore, options: FollowOptions): AsyncGenerator<StoredCheckpoint, void> {
  const seen: Seen = { last: null, doubtful: new Set() };
  const told = new Set<string>();
  const tell = (message: string) => {
    if (!told.has(message)) {
      told.add(message);
      options.onTrouble(message);
    }
  };
  let ends = false;
  for (;;) {
    options.signal?.throwIfAborted();
    try {
      // Reads the end mark before listing, so that no checkpoint written in between is missed. Doubtful checkpoints get another poll.
      const hasEnded = await store.marks.hasEnded(options.applicationId);
      const found = await nextOf(store, seen, options.phase ?? null, tell);
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
      tell(`checkpoints cannot be read at the moment: ${error.message}`);
    }
    await pause(options.everyMs ?? 2000, options.signal);
  }
}

interface Seen {
  last: StoredCheckpoint | null;
  /** Steps whose checkpoints could not be read in the last poll. */
  doubtful: ReadonlySet<number>;
}

/** The newest intact checkpoint since the last one seen; null if there is none. Reads tensors only of the checkpoint that it returns. */
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
 * A checkpoint of a lower step is new only if it was created later: training has resumed from an earlier step. Otherwise the last seen
 * checkpoint was merely removed.
 */
function isSince({ position, manifest }: StoredCheckpoint, step: number, createdAt: string): boolean {
  return step >= position.step || createdAt > manifest.createdAt;
}
