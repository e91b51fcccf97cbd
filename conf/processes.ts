import type { Job } from './job.ts';

/** Maximum number of processes per task. An executor serves this many requests from programs at the same time. */
export const MOST_PROCESSES = 16;

/** Returns the number of processes that each task of the role runs. `auto` means one process per GPU, and at least one process. */
export function processesOf(
  processesPerTask: Job['processesPerTask'],
  { resources: { gpus } }: { readonly resources: { readonly gpus: number } },
): number {
  return processesPerTask === 'auto' ? Math.max(1, gpus) : processesPerTask;
}
