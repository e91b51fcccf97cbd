import { readdir } from 'node:fs/promises';
import { frameworkOf } from '../../conf/frameworks.ts';
import type { Job } from '../../conf/job.ts';
import { ensureRuntime, findRuntime, type Runtime } from './ensure-runtime.ts';
import type { ProgressWriter } from './progress.ts';

type RuntimeChoice = Pick<Job, 'runtime' | 'framework'> & { readonly roles: readonly Pick<Job['roles'][number], 'resources'>[] };

/**
 * Returns the runtime for a job that sets `runtime: default` or `runtime: gpu`. Builds it unless it is in the cache.
 * @param where.isLocal whether the job runs on this machine
 * @throws TonyError the errors of `ensureRuntime`
 */
export async function runtimeForJob(
  job: RuntimeChoice,
  progress: ProgressWriter,
  { isLocal }: { readonly isLocal: boolean },
): Promise<Runtime> {
  const isBuilt = async () => (await findRuntime({ gpu: true })) !== null;
  const hasGpus = async () => !isLocal || namesGpu(await readdir('/dev').catch(() => []));
  return await ensureRuntime(progress, { gpu: await usesGpuRuntime(job, { isBuilt, hasGpus }, progress) });
}

/** Returns true if one of the devices is a GPU of NVIDIA, also in WSL. */
export function namesGpu(devices: readonly string[]): boolean {
  return devices.some((name) => /^(?:nvidia\d+|dxg)$/.test(name));
}

interface GpuFacts {
  /** Whether the runtime with CUDA libraries is built. Fails on architectures for which no such runtime exists. */
  readonly isBuilt: () => Promise<boolean>;
  /** Whether the machines of the job may have GPUs. */
  readonly hasGpus: () => Promise<boolean>;
}

/**
 * Returns true if the job sets `runtime: gpu`. Also returns true if a TensorFlow.js job requests GPUs and the runtime with CUDA libraries
 * is already built. Does not build that runtime, because the build downloads 2.4 GB and therefore requires an explicit request. A note
 * suggests the build, unless the job's machine has no GPU.
 */
export async function usesGpuRuntime(
  { runtime, framework, roles }: RuntimeChoice,
  { isBuilt, hasGpus }: GpuFacts,
  progress: ProgressWriter,
): Promise<boolean> {
  if (runtime !== 'default' || frameworkOf(framework).trainingLibrary !== 'always' || !roles.some(({ resources }) => resources.gpus > 0)) {
    return runtime === 'gpu';
  }
  if (await isBuilt().catch(() => false)) {
    return true;
  }
  if (await hasGpus()) {
    progress(
      'the job requests GPUs, but TensorFlow.js uses them only with CUDA libraries; to build a runtime with these libraries, run `tony-ts runtime build --gpu`',
    );
  }
  return false;
}
