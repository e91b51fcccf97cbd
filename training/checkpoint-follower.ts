import { messageOf, TonyError } from '../conf/errors.ts';
import { type CheckpointStore, isDamage, type StoredCheckpoint } from './checkpoint-store.ts';

export interface FollowOptions {
  /** Between two looks; 2 s unless told. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
  /** Only this application's final checkpoint ends the loop; null for any. */
  readonly applicationId: string | null;
  readonly onTrouble: (message: string) => void;
}

/**
 * Each newest checkpoint as it appears, older ones that were missed left out; ends after the final one. Damaged ones are told and
 * skipped, once they have been found so at two looks in a row: one that is replaced is not there for a moment. While storage is away it waits.
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
  for (;;) {
    options.signal?.throwIfAborted();
    try {
      const found = await nextOf(store, seen, tell);
      if (found !== null) {
        seen.last = found;
        yield found;
      }
    } catch (error) {
      if (!(error instanceof TonyError && error.code === 'HDFS_UNREACHABLE')) {
        throw error;
      }
      tell(`checkpoints cannot be read now: ${error.message}`);
    }
    const { last } = seen;
    if (last?.position.final && (options.applicationId === null || last.manifest.applicationId === options.applicationId)) {
      return;
    }
    await pause(options.everyMs ?? 2000, options.signal);
  }
}

interface Seen {
  last: StoredCheckpoint | null;
  /** Steps whose checkpoints could not be read at the last look. */
  doubtful: ReadonlySet<number>;
}

/** The newest one that verifies, null when there is none since the last one seen; its tensors are only read when there is. */
async function nextOf(store: CheckpointStore, seen: Seen, onSkipped: (message: string) => void): Promise<StoredCheckpoint | null> {
  const { last, doubtful } = seen;
  const unread = new Set<number>();
  seen.doubtful = unread;
  for (const step of await store.steps()) {
    try {
      const { createdAt } = await store.manifest(step);
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

/** Of a lower step only where training has gone back: where the last one is not there any more, those before it are nothing new. */
function isSince({ position, manifest }: StoredCheckpoint, step: number, createdAt: string): boolean {
  return step >= position.step || createdAt > manifest.createdAt;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done);
  });
}
