import type { Job } from '../../conf/job.ts';
import { findPythonArchive, type JobFile } from '../job/job-files.ts';
import { bringsTensorBoard } from '../job/tensorboard-role.ts';
import type { Environment } from '../python/ensure-environment.ts';
import type { TensorBoardArchive } from '../python/ensure-tensorboard.ts';
import type { Runtime } from '../runtime/ensure-runtime.ts';

// Functions that build parts of a job from npm and PyPI packages. To save time, each function loads its build code only if the job needs
// the part.

/** Returns the runtime for a job that sets `runtime: default` or `runtime: gpu`. */
export async function buildRuntime(job: Job, onProgress: (line: string) => void): Promise<Runtime> {
  const { runtimeForJob } = await import('../runtime/runtime-for-job.ts');
  return runtimeForJob(job, onProgress);
}

/** Returns TensorBoard, or null if the job does not run TensorBoard or the build fails. */
export async function buildTensorBoard(job: Job, onProgress: (line: string) => void): Promise<TensorBoardArchive | null> {
  if (!bringsTensorBoard(job)) {
    return null;
  }
  const { tensorBoardForJob } = await import('../python/tensorboard-for-job.ts');
  return tensorBoardForJob(onProgress);
}

/** Returns the job's Python environment, or null if the job uses the Python that is installed on the nodes. */
export async function buildEnvironment({ python }: Job, onProgress: (line: string) => void): Promise<JobFile | Environment | null> {
  if (python.type === 'archive') {
    return findPythonArchive(python);
  }
  if (python.type === 'system') {
    return null;
  }
  const { ensureEnvironment } = await import('../python/ensure-environment.ts');
  return ensureEnvironment(python, onProgress);
}
