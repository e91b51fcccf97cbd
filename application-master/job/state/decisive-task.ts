export const DECISIVE_REASONS = ['restarts', 'gang-restarts', 'job-restarts', 'awaited', 'late'] as const;

/** The task that made the job fail. */
export interface DecisiveTask {
  readonly role: string;
  readonly index: number;
  /**
   * - `restarts`: the task failed and may not be restarted.
   * - `gang-restarts`: the task failed, and the gang has no restarts left.
   * - `job-restarts`: the task failed, and the job has no restarts left.
   * - `awaited`: the task failed, and a role waits until the task has succeeded.
   * - `late`: the task did not start or end in time.
   */
  readonly why: (typeof DECISIVE_REASONS)[number];
}
