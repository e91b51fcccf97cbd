import { formatDuration } from '../values/units.ts';
import type { JobStatus } from './status.ts';

/** Returns how long a job took, or has taken until now: from its submission to its end, including the time during which it waited. In ms. */
export function jobDuration({ submittedAt, finishedAt }: Pick<JobStatus, 'submittedAt' | 'finishedAt'>, now: number): number {
  return Math.max(0, (finishedAt ?? now) - submittedAt);
}

/** Formats a job's duration in whole seconds. */
export function jobDurationText(job: Pick<JobStatus, 'submittedAt' | 'finishedAt'>, now: number): string {
  const seconds = Math.round(jobDuration(job, now) / 1000);
  return seconds === 0 ? '0 s' : formatDuration(1000 * seconds);
}
