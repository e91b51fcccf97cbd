import type { JobConnection } from '../connections/job-connection.ts';
import { stagingLine, submittedLine } from '../output/lines/report-lines.ts';
import { type JobSource, openSubmission, send } from './open-submission.ts';
import type { SubmitOptions } from './submission.ts';

/**
 * Submits a job for a program. `onProgress` receives the lines that `tony-ts submit` prints until the job has started.
 * @param open opens the cluster; tests replace this function
 */
export async function submitForProgram(
  source: JobSource,
  options: SubmitOptions,
  open?: Parameters<typeof openSubmission>[2],
): Promise<JobConnection> {
  const submission = await openSubmission(source, withStagingLines(options), open);
  const connection = await send(submission);
  options.onProgress?.(submittedLine({ id: connection.id, trackingUrl: connection.trackingUrl, queue: submission.job.queue }));
  return connection;
}

/** Passes the lines about the job's files to `onProgress`, unless the program handles `onStaging` itself. */
function withStagingLines(options: SubmitOptions): SubmitOptions {
  const { onProgress, onStaging, local = false } = options;
  if (onProgress === undefined || onStaging !== undefined) {
    return options;
  }
  return {
    ...options,
    onStaging: (event) => {
      const line = stagingLine(event, local);
      if (line !== undefined) {
        onProgress(line);
      }
    },
  };
}
