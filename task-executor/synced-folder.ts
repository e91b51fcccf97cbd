import { rm } from 'node:fs/promises';
import { messageOf } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';
import type { ExecutorState } from './executor-machine.ts';
import { type EndedProgram, START_FAILED } from './program/program.ts';
import type { ProgressSoFar } from './program/report-file.ts';
import type { ExecutorSettings } from './program/settings.ts';
import type { PreparedRun } from './program/task-folder.ts';
import type { CheckpointSync } from './storage/checkpoint-sync.ts';

/** Time limit in ms for storing the last checkpoint of a program that has succeeded. */
const SUCCEEDED_MS = 600_000;
/** Time limit in ms for storing the last checkpoint of a program that has failed. The next generation waits for this checkpoint. */
const FAILED_MS = 60_000;
/**
 * Time limit in ms for storing the last checkpoint of a program that is stopped for a new generation. The ApplicationMaster expects a
 * response to Prepare within 30 s.
 */
const PREPARING_MS = 15_000;
/** Time limit in ms for storing the last checkpoint when the executor leaves the job. */
const LEAVING_MS = 10_000;

/** Returns the time limit in ms for storing the last checkpoint of a program that exited with this code. */
export function timeToSync({ leaving, preparing }: ExecutorState, code: number): number {
  if (leaving !== null) {
    return LEAVING_MS;
  }
  if (preparing !== null) {
    return PREPARING_MS;
  }
  return code === 0 ? SUCCEEDED_MS : FAILED_MS;
}

/**
 * Synchronizes the `checkpoint.sync` folder for one run of the program. Does nothing if the job does not have such a folder or the task
 * does not have a rank.
 */
export class SyncedFolder {
  /** Resolves when the folder contains the newest checkpoint. Rejects with a TonyError if storage is not available. */
  readonly opened: Promise<CheckpointSync | null>;
  readonly #log: Logger;
  readonly #stop = new AbortController();

  constructor(settings: ExecutorSettings, generation: number, run: PreparedRun, progress: ProgressSoFar, log: Logger) {
    this.#log = log;
    this.opened = this.#open(settings, generation, run, progress);
    this.opened.catch(() => {});
  }

  async #open(
    settings: ExecutorSettings,
    generation: number,
    { folder, taskRank: rank, checkpointOrder }: PreparedRun,
    progress: ProgressSoFar,
  ): Promise<CheckpointSync | null> {
    const { sync } = settings.frozen.job.checkpoint;
    if (sync === null || rank === null) {
      return null;
    }
    // Load the storage code on demand to save memory.
    const { openSync } = await import('./storage/open-sync.ts');
    const onStored = (step: number): void => {
      progress.add({ type: 'checkpoint', step });
      // The order to store a checkpoint has been carried out once a checkpoint has been stored.
      rm(checkpointOrder, { force: true }).catch(() => {});
    };
    const onNotice = (message: string, about = ''): void => progress.add({ type: 'notice', message, about });
    return await openSync(settings, { generation, rank, folder, sync, signal: this.#stop.signal, onStored, onNotice });
  }

  /**
   * Stores the newest version before the program's exit is reported.
   * @returns the result to report for the program: `end`, or a failure if the folder was not restored or the last version was not stored
   */
  async finish(end: EndedProgram, withinMs: number): Promise<EndedProgram> {
    let sync: CheckpointSync | null;
    try {
      sync = await this.opened;
    } catch (error) {
      return { code: START_FAILED, signal: '', stderrTail: `The program could not be started: ${messageOf(error)}` };
    }
    try {
      await sync?.finish(withinMs);
      return end;
    } catch (error) {
      this.#log.error({ error: messageOf(error) }, 'could not store the last checkpoint');
      const stderrTail = `The program ended with exit code 0, but its last checkpoint was not stored: ${messageOf(error)}`;
      return end.code === 0 ? { code: 1, signal: '', stderrTail } : end;
    }
  }

  /**
   * Called when the program must end. Aborts a restoration that is in progress. If the last checkpoint is being stored, sets a new time
   * limit.
   */
  limit(withinMs: number): void {
    this.#stop.abort();
    this.#then((sync) => sync.limit(withinMs));
  }

  abort(): void {
    this.#stop.abort();
    this.#then((sync) => sync.abort());
  }

  #then(action: (sync: CheckpointSync) => void): void {
    this.opened.then((sync) => sync && action(sync)).catch(() => {});
  }
}
