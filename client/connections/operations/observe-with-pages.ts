import { isOver, type JobInfo } from '../../../conf/status/job-info.ts';
import type { JobConnection } from '../job-connection.ts';

/** Returns the job's state with the URL of its pages, which a local job reports separately, because the URL contains a token. */
export async function observeWithPages(connection: JobConnection): Promise<JobInfo> {
  const job = await connection.observe();
  const pages = isOver(job) ? null : await connection.pages();
  return { ...job, urls: { ...job.urls, pages } };
}
