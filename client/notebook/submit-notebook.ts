import path from 'node:path';
import type { Job } from '../../conf/job.ts';
import { parseJob, readJob } from '../../conf/resolve/load-job.ts';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { openSubmission, send } from '../submit/open-submission.ts';
import type { SubmitOptions } from '../submit/submission.ts';
import { notebookJobText } from './notebook-job.ts';

export interface NotebookRequest {
  /** Path of the job file, or undefined for a notebook without one. */
  readonly conf?: string | undefined;
  readonly role?: string | undefined;
  /** Values, in `--set` syntax, that override values in the notebook's own job. */
  readonly set: readonly string[];
  readonly idleMs: number;
  readonly local: boolean;
}

/**
 * Submits a job that runs JupyterLab.
 * @throws TonyError USAGE for an unknown role, and the errors of `submit` and `loadJob`
 */
export async function submitNotebook(
  { conf, role, set, idleMs, local }: NotebookRequest,
  options: SubmitOptions,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<JobConnection> {
  const folder = path.dirname(path.resolve(conf ?? 'job.yaml'));
  const read = conf === undefined ? null : await readJob(conf);
  const load = async (site: SiteConfig | null): Promise<Job> => {
    // Validate the job file as the user has written it, so that error messages show its lines.
    const source = read === null ? null : read.parse({ site }).source;
    const text = notebookJobText(read === null ? null : read.text, { role, idleMs, source });
    return parseJob(text, { file: conf ?? 'notebook', folder, set, site, onNote: say });
  };
  const submission = await openSubmission(load, { ...options, local, signal, onProgress: say });
  const job = await send(submission);
  say(`submitted ${job.id}`);
  return job;
}
