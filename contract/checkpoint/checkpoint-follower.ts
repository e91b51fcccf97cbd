import { pause } from '../../platform/async/backoff.ts';
import { messageOf } from '../../platform/errors.ts';
import { isStorageUnreachable } from '../../storage/storage-unreachable.ts';
import { type CheckpointStore, isDamage, type StoredCheckpoint } from './checkpoint-store.ts';

export interface CheckpointFollowOptions {
  /** Polling interval in ms. Default: 2000. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  /**
   * ID of the application that writes the checkpoints, or null for any application. The generator ends when that application's program has
   * ended.
   */
  readonly jobId: string | null;
  /** Name of the phase whose checkpoints the generator yields. Default: all phases. */
  readonly phase?: string;
  readonly onTrouble: (message: string) => void;
}

/**
 * Polls the folder and yields each new checkpoint. If several have appeared since the last poll, yields only the newest. Ends when the
 * program that writes the checkpoints has ended.
 *
 * Waits while storage is unreachable. A checkpoint that cannot be read in two consecutive polls is skipped and reported to `onTrouble`. A
 * single failure is ignored, because a checkpoint is briefly unreadable while a writer replaces it.
 */
export async function* followCheckpoints(store: CheckpointStore, options: CheckpointFollowOptions): AsyncGenerator<StoredCheckpoint, void> {
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
      // Reading the end mark before listing the checkpoints ensures that the list contains every checkpoint written before the end. If a
      // checkpoint could not be read, one more poll follows.
      const hasEnded = await store.marks.hasEnded(options.jobId);
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
      if (!isStorageUnreachable(error)) {
        throw error;
      }
      report(`checkpoints cannot be read at the moment: ${error.message}`);
    }
    await pause(options.everyMs ?? 2000, options.signal);
  }
}

interface Seen {
  last: StoredCheckpoint | null;
  /** Steps of the checkpoints that could not be read in the last poll. */
  doubtful: ReadonlySet<number>;
}

/**
 * Resolves with the newest intact checkpoint that is newer than `seen.last`, or null if there is none. Reads only that checkpoint's
 * tensors.
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
      const { manifest, position } = await store.openCheckpoint(step);
      if (phase !== null && position.phase.name !== phase) {
        continue;
      }
      if (last !== null && last.position.step === step && last.manifest.createdAt === manifest.createdAt) {
        return null;
      }
      if (last === null || isSince(last, step, manifest.createdAt)) {
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
 * Returns true if a checkpoint is newer than the last yielded one. After training has resumed from an earlier step, a new checkpoint can
 * have a lower step than the last one, so this function compares creation times too.
 */
function isSince({ position, manifest }: StoredCheckpoint, step: number, createdAt: string): boolean {
  return step >= position.step || createdAt > manifest.createdAt;
}
