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
 * skipped; while storage is away it waits.
 */
export async function* followCheckpoints(store: CheckpointStore, options: FollowOptions): AsyncGenerator<StoredCheckpoint, void> {
  let last: StoredCheckpoint | null = null;
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
      const found = await newestBut(store, last, tell);
      if (found !== null) {
        last = found;
        yield found;
      }
    } catch (error) {
      if (!(error instanceof TonyError && error.code === 'HDFS_UNREACHABLE')) {
        throw error;
      }
      tell(`checkpoints cannot be read now: ${error.message}`);
    }
    if (last?.position.final && (options.applicationId === null || last.manifest.applicationId === options.applicationId)) {
      return;
    }
    await pause(options.everyMs ?? 2000, options.signal);
  }
}

/** The newest one that verifies, null when that is the last one seen; its tensors are only read when it is not. */
async function newestBut(
  store: CheckpointStore,
  last: StoredCheckpoint | null,
  onSkipped: (message: string) => void,
): Promise<StoredCheckpoint | null> {
  for (const step of await store.steps()) {
    try {
      const { createdAt } = await store.manifest(step);
      if (last !== null && last.position.step === step && last.manifest.createdAt === createdAt) {
        return null;
      }
      return await store.read(step);
    } catch (error) {
      if (!isDamage(error)) {
        throw error;
      }
      onSkipped(`checkpoint step-${step} is skipped: ${messageOf(error)}`);
    }
  }
  return null;
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
