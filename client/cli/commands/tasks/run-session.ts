import type { JobConnection } from '../../../connections/job-connection.ts';
import type { ClusterArguments } from '../shared-options.ts';

/** Exit code if the session itself fails, as with ssh. The program's exit codes are below 255. */
const SESSION_FAILED = 255;

/** Runs a session with one of the job's tasks, and exits with the session's exit code. Ctrl-C ends the session. */
export async function runSession(
  application: string,
  cluster: ClusterArguments,
  run: (job: JobConnection, signal: AbortSignal) => Promise<number>,
): Promise<void> {
  const { connectNamed } = await import('../job-named.ts');
  const { INTERRUPTED } = await import('../../../terminal/interrupts.ts');
  const { untilSignal } = await import('../../../terminal/until-signal.ts');
  const stop = new AbortController();
  try {
    const job = await connectNamed(application, cluster);
    void untilSignal().then(() => stop.abort());
    process.exitCode = await run(job, stop.signal).finally(() => job.close());
  } catch (error) {
    process.exitCode = stop.signal.aborted ? INTERRUPTED : SESSION_FAILED;
    if (!stop.signal.aborted) {
      throw error;
    }
  }
}

/** Returns a function that writes notices about a session to stderr. */
export async function noticeWriter(): Promise<(notice: string) => void> {
  const { terminalOf } = await import('../../../terminal/terminal.ts');
  const { stderr } = process;
  return (notice) => void stderr.write(`${terminalOf(stderr).paint('yellow', notice)}\n`);
}
