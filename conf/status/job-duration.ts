import { formatDuration } from '../values/units.ts';
import type { JobInfo } from './job-info.ts';

/** Returns how long a job took, or has taken until now: from its submission to its end, including the time during which it waited. In ms. */
export function jobDuration({ createdAt, finishedAt }: Pick<JobInfo, 'createdAt' | 'finishedAt'>, now: number): number {
  return createdAt === null ? 0 : Math.max(0, (finishedAt ?? now) - createdAt);
}

/** Formats a job's duration in whole seconds, or returns `-` if the time of the submission is unknown. */
export function jobDurationText(job: Pick<JobInfo, 'createdAt' | 'finishedAt'>, now: number): string {
  if (job.createdAt === null) {
    return '-';
  }
  const seconds = Math.round(jobDuration(job, now) / 1000);
  return seconds === 0 ? '0 s' : formatDuration(1000 * seconds);
}
