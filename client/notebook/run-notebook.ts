import { TonyError } from '../../platform/errors.ts';
import { untilAborted } from '../../platform/until-aborted.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { killJob } from '../connections/kill-job.ts';
import { forwardPort } from '../sessions/forward-port.ts';
import { NOTEBOOK_TASK, notebookServer } from './notebook-server.ts';

export interface RunNotebookOptions {
  readonly localPort: number | undefined;
  /** Whether the job continues after an interrupt. */
  readonly keep: boolean;
  /** Aborted by an interrupt. */
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
  /** Receives the URL with the token. */
  readonly show: (url: string) => void;
}

/**
 * Opens a tunnel to a notebook, and waits until the notebook ends or the user interrupts. After an interrupt, ends the job unless `keep` is
 * set.
 * @throws TonyError JOB_FAILED if the notebook fails, and the errors of `forwardPort` and `killJob`
 */
export async function runNotebook(job: JobConnection, options: RunNotebookOptions): Promise<'ended' | 'interrupted'> {
  const { signal, keep, say } = options;
  try {
    await follow(job, options);
    say(`${job.applicationId} has ended.`);
    return 'ended';
  } catch (error) {
    if (!signal.aborted) {
      throw error;
    }
  }
  if (keep) {
    say(`The notebook continues. To reconnect, run: tony-ts notebook ${job.applicationId}`);
  } else {
    await killJob(job, 'interrupt');
    say(`${job.applicationId} has ended, because you interrupted this command.`);
  }
  return 'interrupted';
}

async function follow(job: JobConnection, { localPort, signal, say, show }: RunNotebookOptions): Promise<void> {
  const { port, token } = await notebookServer(job, say, signal);
  const forwarded = await forwardPort(job, NOTEBOOK_TASK, port, { localPort, onNotice: say });
  try {
    show(`http://127.0.0.1:${forwarded.port}/lab?token=${token}`);
    await untilAborted(forwarded.ended, signal);
  } catch (error) {
    const { result } = signal.aborted ? { result: null } : await job.observe();
    if (result?.state !== 'SUCCEEDED') {
      throw result === null ? error : new TonyError('JOB_FAILED', `${job.applicationId} has ended: ${result.state}: ${result.diagnostics}`);
    }
  } finally {
    forwarded.close();
  }
}
