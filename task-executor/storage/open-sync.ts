import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { retry } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { CheckpointSync } from './checkpoint-sync.ts';
import { FileCheckpoints, type RestoredCheckpoint } from './file-checkpoints.ts';
import { markerOf } from './local-versions.ts';
import { openStorage, type StorageContainer } from './storage-services.ts';

/**
 * Creates an empty `checkpoint.sync` folder in the program's working directory.
 * @param sync relative path of the folder
 * @returns absolute path of the folder
 * @throws TonyError CHECKPOINT_FAILED if a symbolic link makes the path lead out of the working directory
 */
async function createSyncFolder(workingDirectory: string, sync: string): Promise<string> {
  const root = await realpath(workingDirectory);
  let parent = root;
  for (const name of path
    .dirname(sync)
    .split('/')
    .filter((each) => each !== '.')) {
    parent = path.join(parent, name);
    await mkdir(parent, { recursive: true });
    if (!(await lstat(parent)).isDirectory()) {
      throw new TonyError('CHECKPOINT_FAILED', `checkpoint.sync leads through the symbolic link ${path.relative(root, parent)}`, {
        hint: 'Choose another folder, because tony-ts empties this one.',
      });
    }
  }
  const folder = path.join(root, sync);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  return folder;
}

/** Moves a checkpoint's local copy to the `checkpoint.sync` folder under the version's name, and then creates the version's marker. */
async function placeVersion({ step, folder: copy, target }: RestoredCheckpoint, folder: string): Promise<void> {
  // If the version is a single file, `target` is empty.
  const [file = ''] = target === '' ? await readdir(copy) : [];
  const name = target === '' ? file : (target ?? `step-${step}`);
  await rename(path.join(copy, file), path.join(folder, name));
  await writeFile(path.join(folder, markerOf(name)), '');
}

const BACKOFF = { firstMs: 1_000, mostMs: 10_000 };
/** How many times to try to restore a checkpoint. Each time, the storage code itself also retries failed requests. */
const MOST_TRIES = 20;

export interface SyncedRun {
  readonly generation: number;
  readonly rank: number;
  /** The program's working directory. */
  readonly folder: string;
  /** `checkpoint.sync`. */
  readonly sync: string;
  /** Aborts the restoration. */
  readonly signal: AbortSignal;
  readonly onStored: (step: number) => void;
  readonly onNotice: (message: string, about?: string) => void;
}

/**
 * Restores the newest intact checkpoint to the `checkpoint.sync` folder before the program starts.
 * @returns for rank 0, the synchronization, which is already running; null for other ranks
 * @throws TonyError if storage is not available
 */
export async function openSync(container: StorageContainer, run: SyncedRun): Promise<CheckpointSync | null> {
  const folder = await createSyncFolder(run.folder, run.sync);
  const scratch = path.join(container.folder, CONTAINER_LAYOUT.program, `files-${run.generation}`);
  const copies = path.join(scratch, randomUUID());
  const restored = await restore(container, run, copies);
  if (restored !== null) {
    await placeVersion(restored, folder);
  }
  await rm(copies, { recursive: true, force: true });
  if (run.rank !== 0) {
    return null;
  }
  if (restored !== null) {
    run.onNotice(`training resumes from checkpoint step-${restored.step}`, 'resume');
  }
  const restoredStep = restored?.step ?? -1;
  return new CheckpointSync({
    folder,
    scratch,
    restoredStep,
    save: (step, local, signal, options) =>
      withCheckpoints(container, run.generation, (checkpoints) =>
        checkpoints.save(step, local, signal, { ...options, protect: restoredStep }),
      ),
    onStored: run.onStored,
    onNotice: run.onNotice,
  });
}

function restore(container: StorageContainer, run: SyncedRun, copies: string): Promise<RestoredCheckpoint | null> {
  const { generation, signal, onNotice } = run;
  const attempt = () =>
    withCheckpoints(container, generation, (checkpoints) => checkpoints.restore(copies, signal, onNotice, { ofEarlierGenerations: true }));
  return retry(attempt, {
    ...BACKOFF,
    signal,
    onFailure: (error, failures) => {
      if (failures >= MOST_TRIES || (error instanceof TonyError && error.code === 'ACCESS_DENIED')) {
        throw error;
      }
      if (failures === 1) {
        onNotice(`The newest checkpoint cannot be restored yet: ${messageOf(error)}`);
      }
    },
  });
}

async function withCheckpoints<T>(
  container: StorageContainer,
  generation: number,
  work: (checkpoints: FileCheckpoints) => Promise<T>,
): Promise<T> {
  // Open the storage for each operation, because the delegation tokens may have been replaced meanwhile.
  const storage = openStorage(container);
  try {
    const { jobId, checkpointDir, job } = container.frozen;
    return await work(new FileCheckpoints(storage, checkpointDir, { jobId, generation }, job.checkpoint.keep));
  } finally {
    storage.close();
  }
}
