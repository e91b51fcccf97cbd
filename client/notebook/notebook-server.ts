import { Readable, Writable } from 'node:stream';
import * as z from 'zod';
import { pause } from '../../platform/async/backoff.ts';
import { TonyError } from '../../platform/errors.ts';
import { parseJson } from '../../platform/json-value.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { JobHandle } from '../connections/operations/job-handle.ts';
import { execInTask } from '../sessions/exec.ts';
import { NOTEBOOK_ROLE } from './notebook-job.ts';

export const NOTEBOOK_TASK = `${NOTEBOOK_ROLE}:0`;
/** Interval (ms) at which the client checks whether the server is running. */
const LOOK_MS = 500;
const LONGEST_DESCRIPTION = 64 * 1024;

const serverFile = z.object({
  /** Port on the node's loopback address. */
  port: z.int(),
  token: z.string().min(1),
});

export type NotebookServer = Readonly<z.output<typeof serverFile>>;

/**
 * Waits until the notebook's server is running, and returns its port and token. A command in the task reads the port and the token from a
 * file that the server writes.
 * @param onWaiting called with the reason for waiting whenever it changes
 * @throws TonyError JOB_FAILED with the last output lines if the job has failed, SESSION_ENDED if the job has ended for any other reason,
 *   and the errors of `execInTask`; also the abort reason of `signal`
 */
export async function notebookServer(
  job: JobConnection,
  onWaiting: (reason: string) => void,
  signal: AbortSignal,
): Promise<NotebookServer> {
  let shown = '';
  for (;;) {
    signal.throwIfAborted();
    const { result, status, waiting } = await job.observe();
    if (result !== null) {
      await new JobHandle(job).result();
      throw new TonyError('SESSION_ENDED', `${job.applicationId} has ended: ${result.state}.`);
    }
    const isRunning = status?.tasks.some(({ role, state }) => role === NOTEBOOK_ROLE && state === 'running') === true;
    const server = isRunning ? await readServer(job, signal) : null;
    if (server !== null) {
      return server;
    }
    const reason = isRunning ? 'JupyterLab is starting' : waiting || 'waiting for a container';
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
    if (error instanceof TonyError && (error.code === 'SESSION_REFUSED' || error.code === 'SESSION_ENDED')) {
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
