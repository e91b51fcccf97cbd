import { untilAborted } from '../../platform/async/until-aborted.ts';
import { TonyError } from '../../platform/errors.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { killJob } from '../connections/operations/kill-job.ts';
import { forwardPort } from '../sessions/forward-port.ts';
import { throwIfForeign } from '../sessions/session-client.ts';
import { NOTEBOOK_TASK, notebookServer } from './notebook-server.ts';

export interface RunNotebookOptions {
  readonly localPort: number | undefined;
  /** Signal that ends the wait for the notebook. */
  readonly signal: AbortSignal;
  /** Whether the job continues when `signal` is aborted. */
  readonly keeps: () => boolean;
  readonly say: (line: string) => void;
  /** Receives the notebook's URL, which contains the token. */
  readonly show: (url: string) => void;
}

/**
 * Opens a tunnel to a notebook, and waits until the notebook ends. If `signal` is aborted before that, kills the job unless `keeps` returns
 * true.
 * @throws TonyError SESSION_REFUSED for a job of another user, JOB_FAILED if the notebook fails, and the errors of `forwardPort` and `killJob`
 */
export async function runNotebook(job: JobConnection, options: RunNotebookOptions): Promise<'ended' | 'interrupted'> {
  const { signal, keeps, say } = options;
  // Without this check, the client would wait forever, because the state of another user's tasks is hidden.
  await throwIfForeign(job);
  try {
    await follow(job, options);
    say(`${job.applicationId} has ended.`);
    return 'ended';
  } catch (error) {
    if (!signal.aborted) {
      if (keeps() && !(error instanceof TonyError && ENDED.has(error.code))) {
        say(`The notebook may still be running. ${howToConnect(job.applicationId)}`);
      }
      throw error;
    }
  }
  if (keeps()) {
    say(`The notebook continues. ${howToConnect(job.applicationId)}`);
  } else {
    await killJob(job, 'interrupt');
    say(`${job.applicationId} has ended, because you interrupted this command.`);
  }
  return 'interrupted';
}

/** Error codes that indicate that the notebook has ended. */
const ENDED: ReadonlySet<string> = new Set(['JOB_FAILED', 'SESSION_ENDED']);

export function howToConnect(applicationId: string): string {
  return `To connect, run: tony-ts notebook ${applicationId}`;
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
