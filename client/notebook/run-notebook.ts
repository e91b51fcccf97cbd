import { Readable, Writable } from 'node:stream';
import * as z from 'zod';
import { isOver, isReported } from '../../conf/status/job-info.ts';
import { pause } from '../../platform/async/backoff.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { TonyError } from '../../platform/errors.ts';
import { parseJson } from '../../platform/json-value.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { killJob } from '../connections/operations/kill-job.ts';
import { execInTask } from '../sessions/exec.ts';
import { forwardPort } from '../sessions/forward-port.ts';
import { throwIfForeign } from '../sessions/session-client.ts';
import { JobHandle } from '../submit/job-handle.ts';
import { NOTEBOOK_ROLE } from './notebook-job.ts';

const NOTEBOOK_TASK = `${NOTEBOOK_ROLE}:0`;
/** Interval (ms) at which the client checks whether the server is running. */
const LOOK_MS = 500;
const LONGEST_DESCRIPTION = 64 * 1024;

const serverFile = z.object({
  /** Port on the node's loopback address. */
  port: z.int(),
  token: z.string().min(1),
});

type NotebookServer = Readonly<z.output<typeof serverFile>>;

/**
 * Waits until the notebook's server is running, and returns its port and token. A command in the task reads the port and the token from a
 * file that the server writes.
 * @param onWaiting called with the reason for waiting whenever it changes
 * @throws TonyError JOB_FAILED with the last output lines if the job has failed, SESSION_ENDED if the job has ended for any other reason,
 *   and the errors of `execInTask`; also the abort reason of `signal`
 */
async function notebookServer(job: JobConnection, onWaiting: (reason: string) => void, signal: AbortSignal): Promise<NotebookServer> {
  let shown = '';
  for (;;) {
    signal.throwIfAborted();
    const seen = await job.observe();
    if (isOver(seen)) {
      await new JobHandle(job).result();
      throw new TonyError('SESSION_ENDED', `${job.id} has ended: ${seen.state}.`);
    }
    const isRunning = seen.tasks.some(({ role, state }) => role === NOTEBOOK_ROLE && state === 'running');
    const server = isRunning ? await readServer(job, signal) : null;
    if (server !== null) {
      return server;
    }
    const reason = isRunning ? 'JupyterLab is starting' : (!isReported(seen) && seen.message) || 'waiting for a container';
    if (reason !== shown) {
      shown = reason;
      onWaiting(reason);
    }
    await pause(LOOK_MS, signal);
  }
}

/** Returns the server's port and token, or null if the server is not running yet. */
async function readServer(job: JobConnection, signal: AbortSignal): Promise<NotebookServer | null> {
  const output = new Collector();
  const words = ['sh', '-c', 'cat .tony-notebook/runtime/jpserver-*.json'];
  try {
    const streams = { input: Readable.from([]), output, errors: new Collector(), signal };
    return (await execInTask(job, NOTEBOOK_TASK, words, streams)) === 0 ? parseServer(output.text) : null;
  } catch (error) {
    // The program may be starting or ending. The next observation shows which.
    if (error instanceof TonyError && (error.code === 'SESSION_DENIED' || error.code === 'SESSION_ENDED')) {
      return null;
    }
    throw error;
  }
}

/** Parses the file that the server has written. Returns null if the text is incomplete. */
export function parseServer(text: string): NotebookServer | null {
  return serverFile.safeParse(parseJson(text)).data ?? null;
}

class Collector extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    if (this.text.length < LONGEST_DESCRIPTION) {
      this.text += chunk.toString();
    }
    done();
  }
}

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
 * @throws TonyError SESSION_DENIED for a job of another user, JOB_FAILED if the notebook fails, and the errors of `forwardPort` and `killJob`
 */
export async function runNotebook(job: JobConnection, options: RunNotebookOptions): Promise<'ended' | 'interrupted'> {
  const { signal, keeps, say } = options;
  // Without this check, the client would wait forever, because the state of another user's tasks is hidden.
  await throwIfForeign(job);
  try {
    await follow(job, options);
    say(`${job.id} has ended.`);
    return 'ended';
  } catch (error) {
    if (!signal.aborted) {
      if (keeps() && !(error instanceof TonyError && ENDED.has(error.code))) {
        say(`The notebook may still be running. ${howToConnect(job.id)}`);
      }
      throw error;
    }
  }
  if (keeps()) {
    say(`The notebook continues. ${howToConnect(job.id)}`);
  } else {
    await killJob(job, 'interrupt');
    say(`${job.id} has ended, because you interrupted this command.`);
  }
  return 'interrupted';
}

/** Error codes that indicate that the notebook has ended. */
const ENDED: ReadonlySet<string> = new Set(['JOB_FAILED', 'SESSION_ENDED']);

export function howToConnect(jobId: string): string {
  return `To connect, run: tony-ts notebook ${jobId}`;
}

async function follow(job: JobConnection, { localPort, signal, say, show }: RunNotebookOptions): Promise<void> {
  const { port, token } = await notebookServer(job, say, signal);
  const forwarded = await forwardPort(job, NOTEBOOK_TASK, port, { localPort, onNotice: say });
  try {
    show(`http://127.0.0.1:${forwarded.port}/lab?token=${token}`);
    await untilAborted(forwarded.ended, signal);
  } catch (error) {
    const seen = signal.aborted ? null : await job.observe();
    if (seen === null || !isOver(seen)) {
      throw error;
    }
    if (seen.state !== 'succeeded') {
      throw new TonyError('JOB_FAILED', `${job.id} has ended: ${seen.state}: ${seen.message}`, { jobId: job.id });
    }
  } finally {
    forwarded.close();
  }
}
