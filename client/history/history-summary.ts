import type { HistorySummary } from '../../web/history-list.ts';
import type { ListedJob } from './history-index.ts';

/** A line of the list of jobs. */
export function historySummary({ place, status }: ListedJob): HistorySummary {
  const { applicationId, user } = place;
  const { name, queue, state, startedAt, finishedAt, step, message } = status;
  return { applicationId, user, name, queue, state, startedAt, finishedAt, step, message, href: `${jobPath(user, applicationId)}tony/` };
}

/** Of a job's site, relative to the index page. */
export function jobPath(user: string, applicationId: string): string {
  return `jobs/${encodeURIComponent(user)}/${applicationId}/`;
}
