import type { HistorySummary } from '../../web/history-list.ts';
import type { ListedJob } from './history-index.ts';

/** Maximum length (characters) of a message in the job list. The job's page shows the full message. */
const LONGEST_MESSAGE = 2_000;

/** Returns a row of the job list. */
export function historySummary({ place, status }: ListedJob): HistorySummary {
  const { applicationId, user } = place;
  const { name, queue, state, submittedAt, startedAt, finishedAt, step } = status;
  const message = status.message.slice(0, LONGEST_MESSAGE);
  const href = `${jobPath(user, applicationId)}tony/`;
  return { applicationId, user, name, queue, state, submittedAt, startedAt, finishedAt, step, message, href };
}

/** Returns the path of a job's pages relative to the job list. */
export function jobPath(user: string, applicationId: string): string {
  return `jobs/${encodeURIComponent(user)}/${applicationId}/`;
}
