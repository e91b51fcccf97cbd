import { frameworkOf } from '../../conf/frameworks.ts';
import type { Job } from '../../conf/job.ts';
import { formatMemory, MEBIBYTE } from '../../conf/values/units.ts';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { estimateResumedMemory, inMemory, suggested } from '../../contract/checkpoint/memory-estimate.ts';
import type { Storage } from '../../storage/storage.ts';

/**
 * Compares the containers of a job that resumes training with the memory that the model in its newest checkpoint needs. Before the program
 * runs, only a checkpoint shows the sizes of the model and of the optimizer.
 * @param dir URI of the checkpoint folder, or null if the job starts with an empty one
 * @returns a note for each role whose containers are probably too small
 */
export async function resumeMemoryNotes(
  { framework, strategy, roles }: Pick<Job, 'framework' | 'strategy' | 'roles'>,
  dir: string | null,
  storage: Storage,
): Promise<string[]> {
  // The estimate describes tasks on CPUs that hold the whole training state.
  const ranked = roles.filter(({ kind, resources }) => kind === 'gang' && resources.gpus === 0);
  if (dir === null || frameworkOf(framework).trainingLibrary !== 'always' || strategy.type !== 'all-reduce' || ranked.length === 0) {
    return [];
  }
  const manifest = await newestManifest(new CheckpointStore(storage, dir));
  const worldSize = ranked.reduce((sum, { instances }) => sum + instances, 0);
  const estimate = manifest === null ? null : estimateResumedMemory(manifest, worldSize);
  if (manifest === null || estimate === null) {
    return [];
  }
  return ranked
    .filter(({ resources }) => estimate.total > resources.memoryMb * MEBIBYTE)
    .map(
      ({ name, resources }) =>
        `to resume from step ${manifest.position.step}, a container of role ${name} may need at least ${inMemory(estimate.total)} of memory, but it has ${formatMemory(resources.memoryMb)}: raise roles.${name}.resources.memory to ${suggested(estimate.total)}`,
    );
}

/** A checkpoint that cannot be read does not prevent the submission, because the program chooses the checkpoint. */
async function newestManifest(store: CheckpointStore) {
  return await store
    .newestThat(
      async ({ manifest }) => manifest,
      () => {},
    )
    .catch(() => null);
}
