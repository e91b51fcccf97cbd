import { rm } from 'node:fs/promises';
import { messageOf } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';
import type { ExecutorState } from './executor-machine.ts';
import type { ProgramEnd } from './program.ts';
import type { ProgressSoFar } from './report-file.ts';
import type { ExecutorSettings } from './settings.ts';
import type { CheckpointSync } from './storage/checkpoint-sync.ts';
import type { PreparedRun } from './task-folder.ts';

/** Time in ms to store the last checkpoint of a program that has succeeded. */
const SUCCEEDED_MS = 600_000;
/** The same for a program that has failed or ends for the next generation, which waits for it. */
const FAILED_MS = 60_000;
/** The same for an executor that leaves the job. */
const LEAVING_MS = 10_000;

/** Returns the time in ms for the last checkpoint of a program that has ended with this exit code. */
export function timeToSync({ leaving, preparing }: ExecutorState, code: number): number {
  if (leaving !== null) {
    return LEAVING_MS;
  }
  return code === 0 && preparing === null ? SUCCEEDED_MS : FAILED_MS;
}

/**
 * Restores the folder `checkpoint.sync` of a task with a rank.
 * @param signal ends the restoration.
 * @returns null if the executor does not store the program's checkpoints.
 * @throws TonyError if the storage is not available.
 */
export async function openProgramSync(
  settings: ExecutorSettings,
  generation: number,
  { folder, rank, checkpointOrder }: PreparedRun,
  progress: ProgressSoFar,
  signal: AbortSignal,
): Promise<CheckpointSync | null> {
  const { sync } = settings.frozen.job.checkpoint;
  if (sync === null || rank === null) {
    return null;
  }
  // Loaded on demand to save memory.
  const { openSync } = await import('./storage/open-sync.ts');
  const onStored = (step: number): void => {
    progress.add({ type: 'checkpoint', step });
    // The stored checkpoint fulfils the order.
    rm(checkpointOrder, { force: true }).catch(() => {});
  };
  const onNotice = (message: string, about = ''): void => progress.add({ type: 'notice', message, about });
  return await openSync(settings, { generation, rank, folder, sync, signal, onStored, onNotice });
}

/** Stores the newest version before the program's end is reported. If this fails, the program has failed. */
export async function finishSync(sync: CheckpointSync, end: ProgramEnd, withinMs: number, log: Logger): Promise<ProgramEnd> {
  try {
    await sync.finish(withinMs);
    return end;
  } catch (error) {
    log.error({ error: messageOf(error) }, 'could not store the last checkpoint');
    const stderrTail = `The program ended with exit code 0, but its last checkpoint was not stored: ${messageOf(error)}`;
    return end.code === 0 ? { code: 1, signal: '', stderrTail } : end;
  }
}
