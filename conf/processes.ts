import type { Job } from './job.ts';

/** Maximum number of processes per task. The executor serves this many requests of its programs at the same time. */
export const MOST_PROCESSES = 16;

/** Returns the number of processes that each task of the role runs. `auto` means one for each GPU, and at least one. */
export function processesOf(
  processesPerTask: Job['processesPerTask'],
  { resources: { gpus } }: { readonly resources: { readonly gpus: number } },
): number {
  return processesPerTask === 'auto' ? Math.max(1, gpus) : processesPerTask;
}
