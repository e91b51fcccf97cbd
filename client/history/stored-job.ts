import { jobInfo, type ListedJob, listedJob } from '../../conf/status/job-info.ts';
import type { HistoryJob } from './history-index.ts';

/** Maximum length (characters) of a message in the job list. The job's page shows the full message. */
const LONGEST_MESSAGE = 2_000;

/** Returns an entry of the job list. The list reads neither the tasks nor what depends on them. */
export function storedJob({ place: { user }, status }: HistoryJob): ListedJob {
  const message = status.message.slice(0, LONGEST_MESSAGE);
  return { ...listedJob(jobInfo(status)), user, message, tasksRunning: null, tasksTotal: null };
}

/** Returns the path of a job's pages relative to the job list. */
export function jobPath(user: string, id: string): string {
  return `jobs/${encodeURIComponent(user)}/${id}/`;
}
