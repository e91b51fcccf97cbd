import type { ReadStream } from 'node:tty';
import { isReported } from '../../../conf/status/job-info.ts';
import type { JobConnection } from '../../connections/job-connection.ts';
import { type EndedJob, followJob } from '../../connections/operations/follow-job.ts';
import { killJob } from '../../connections/operations/kill-job.ts';
import { INTERRUPTED, onInterrupt } from '../../terminal/interrupts.ts';
import type { JobOutput } from './job-output.ts';
import type { ProgramLines } from './program-lines.ts';

export interface FollowToEndOptions {
  readonly output: JobOutput;
  readonly ask: (question: string) => void;
  /** Terminal from which to read the user's answers, or null if stdin is not interactive. */
  readonly input: ReadStream | null;
  readonly mayDetach: boolean;
  /** Program output to show. */
  readonly programs?: ProgramLines;
}

class Detached extends Error {
  readonly by: 'person' | 'signal';
  constructor(by: 'person' | 'signal') {
    super('detached');
    this.by = by;
  }
}

/** Shows a job's progress until the job ends or the user detaches. Returns the command's exit code. */
export async function followToEnd(connection: JobConnection, options: FollowToEndOptions): Promise<number> {
  const { output, ask, input, mayDetach, programs } = options;
  const away = new AbortController();
  let killing: Promise<unknown> = Promise.resolve();
  let isInterrupted = false;
  const release = onInterrupt({
    input,
    mayDetach,
    ask,
    decided: (decision, by) => {
      if (decision === 'detach') {
        away.abort(new Detached(by));
      } else {
        isInterrupted = by === 'signal';
        output.say(`killing ${connection.id}`);
        killing = killJob(connection, by === 'signal' ? 'interrupt' : 'order').catch((error: unknown) => away.abort(error));
      }
    },
  });
  try {
    let shownBy = 0;
    const looks = followJob(connection, { signal: away.signal });
    let report: EndedJob;
    for (;;) {
      const next = await looks.next();
      if (next.done) {
        report = next.value;
        break;
      }
      output.look(next.value);
      programs?.observed(next.value.job);
      // Show the URL again after a restart, because each ApplicationMaster attempt has its own URL.
      const master = isReported(next.value.job) ? next.value.job.masterAttempt : 0;
      if (connection.trackingUrl !== null || master === shownBy) {
        continue;
      }
      shownBy = master;
      const pages = await connection.pages();
      if (pages !== null) {
        output.pages(pages);
      }
    }
    await killing;
    if (!isInterrupted && programs !== undefined && !(await programs.end(away.signal)) && hasStarted(report)) {
      output.say(`The programs' output is incomplete here. See tony-ts logs ${connection.id}`);
    }
    output.report(report);
    if (report.state === 'killed' && isInterrupted) {
      return INTERRUPTED;
    }
    return report.state === 'succeeded' ? 0 : 1;
  } catch (error) {
    if (!(error instanceof Detached)) {
      throw error;
    }
    output.leave(`detached; the job continues. See tony-ts status ${connection.id}`);
    return error.by === 'person' ? 0 : INTERRUPTED;
  } finally {
    release();
    programs?.stop();
    output.close();
  }
}

function hasStarted({ tasks }: EndedJob): boolean {
  return tasks.some(({ containerId }) => containerId !== null);
}
