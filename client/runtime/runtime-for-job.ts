import { frameworkOf } from '../../conf/frameworks.ts';
import type { Job } from '../../conf/job.ts';
import { ensureRuntime, findRuntime, type Runtime } from './ensure-runtime.ts';
import type { ProgressWriter } from './progress.ts';

type RuntimeChoice = Pick<Job, 'runtime' | 'framework'> & { readonly roles: readonly Pick<Job['roles'][number], 'resources'>[] };

/**
 * Returns the runtime for a job that sets `runtime: default` or `runtime: gpu`. Builds it unless it is in the cache.
 * @throws TonyError the errors of `ensureRuntime`
 */
export async function runtimeForJob(job: RuntimeChoice, progress: ProgressWriter): Promise<Runtime> {
  return await ensureRuntime(progress, {
    gpu: await usesGpuRuntime(job, async () => (await findRuntime({ gpu: true })) !== null, progress),
  });
}

/**
 * Returns true if the job sets `runtime: gpu`. Also returns true if a TensorFlow.js job requests GPUs and the runtime with CUDA libraries
 * is already built. Does not build that runtime, because the build downloads 2.4 GB and therefore requires an explicit request.
 */
export async function usesGpuRuntime(
  { runtime, framework, roles }: RuntimeChoice,
  isBuilt: () => Promise<boolean>,
  progress: ProgressWriter,
): Promise<boolean> {
  if (runtime !== 'default' || frameworkOf(framework).trainingLibrary !== 'always' || !roles.some(({ resources }) => resources.gpus > 0)) {
    return runtime === 'gpu';
  }
  // `isBuilt` fails on architectures for which no runtime with CUDA libraries exists.
  if (await isBuilt().catch(() => false)) {
    return true;
  }
  progress(
    'the job requests GPUs, but TensorFlow.js uses them only with CUDA libraries; to build a runtime with these libraries, run `tony-ts runtime build --gpu`',
  );
  return false;
}
