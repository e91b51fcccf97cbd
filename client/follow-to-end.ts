import type { ReadStream } from 'node:tty';
import { followJob, type JobReport } from './follow-job.ts';
import { INTERRUPTED, onInterrupt } from './interrupts.ts';
import type { JobConnection } from './job-connection.ts';
import type { JobOutput } from './job-output.ts';
import { killJob } from './kill-job.ts';

export interface FollowToEndOptions {
  readonly output: JobOutput;
  readonly ask: (question: string) => void;
  /** The terminal that answers questions; null where nobody can be asked. */
  readonly input: ReadStream | null;
  readonly mayDetach: boolean;
}

class Detached extends Error {
  readonly by: 'person' | 'signal';
  constructor(by: 'person' | 'signal') {
    super('detached');
    this.by = by;
  }
}

/** Shows a job until it is over, or until the person turns away. Answers the process's exit code. */
export async function followToEnd(connection: JobConnection, options: FollowToEndOptions): Promise<number> {
  const { output, ask, input, mayDetach } = options;
  const away = new AbortController();
  let killing: Promise<unknown> = Promise.resolve();
  const release = onInterrupt({
    input,
    mayDetach,
    ask,
    decided: (decision, by) => {
      if (decision === 'detach') away.abort(new Detached(by));
      else {
        output.say(`ending ${connection.applicationId}`);
        killing = killJob(connection).catch((error: unknown) => away.abort(error));
      }
    },
  });
  try {
    let shownBy = 0;
    const looks = followJob(connection, { signal: away.signal });
    let report: JobReport;
    for (;;) {
      const next = await looks.next();
      if (next.done) {
        report = next.value;
        break;
      }
      output.look(next.value);
      // Another attempt of the ApplicationMaster has another address.
      const master = next.value.observation.status?.masterAttempt ?? 0;
      if (connection.trackingUrl !== null || master === shownBy) continue;
      shownBy = master;
      const pages = await connection.pages();
      if (pages !== null) output.pages(pages);
    }
    await killing;
    output.report(report);
    return report.state === 'SUCCEEDED' ? 0 : 1;
  } catch (error) {
    if (!(error instanceof Detached)) throw error;
    output.say(`detached; the job goes on. See tony-ts status ${connection.applicationId}`);
    return error.by === 'person' ? 0 : INTERRUPTED;
  } finally {
    release();
    output.close();
  }
}
