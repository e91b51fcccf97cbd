import type { ReadStream, WriteStream } from 'node:tty';
import type { JobConnection, Observation } from '../connections/job-connection.ts';
import type { JobSummary } from '../listing/job-lister.ts';
import { statusLines } from '../output/lines/status-lines.ts';
import { printable, type Terminal, terminalOf } from '../terminal/terminal.ts';
import { JOB_ORDERINGS, jobFrame, jobsFrame, TASK_ORDERINGS } from './top-frame.ts';
import { FIRST_VIEW } from './top-view.ts';
import { watch } from './watch.ts';

export interface TopOptions {
  readonly input: ReadStream;
  readonly output: WriteStream;
  readonly intervalMs: number;
}

const QUIET = { notice: '', intervalMs: 0 };

/**
 * Shows one job until it ends, then prints the job's report. If the output is not a terminal, prints the job's state once. Returns the exit
 * code.
 */
export async function topJob(connection: JobConnection, { input, output, intervalMs }: TopOptions): Promise<number> {
  const terminal = terminalOf(output);
  const { applicationId } = connection;
  const show = (lines: readonly string[]): void => void output.write(lines.map((line) => `${printable(line)}\n`).join(''));
  const ended = (observation: Observation): void => show(statusLines({ applicationId, pages: null }, observation, terminal, Date.now()));
  const first = await connection.observe();
  if (first.result !== null) {
    ended(first);
    return 0;
  }
  if (!terminal.live) {
    show(jobFrame(applicationId, first, FIRST_VIEW, QUIET, whole(terminal), Date.now()).lines);
    return 0;
  }
  const { last, exitCode } = await watch<Observation>(
    {
      look: () => connection.observe(),
      isOver: ({ result }) => result !== null,
      frame: (seen, view, notes) => jobFrame(applicationId, seen, view, notes, terminal, Date.now()),
      orders: TASK_ORDERINGS.length,
    },
    { input: input.isTTY ? input : null, output, intervalMs },
  );
  if (last !== null) {
    ended(last);
  }
  return exitCode;
}

/** Shows the jobs that `list` returns, until the user quits. */
export async function topJobs(
  list: () => Promise<readonly JobSummary[]>,
  { input, output, intervalMs }: TopOptions,
  { whose, withUsers }: { readonly whose: string; readonly withUsers: boolean },
): Promise<number> {
  const terminal = terminalOf(output);
  if (!terminal.live) {
    const { lines } = jobsFrame(await list(), whose, FIRST_VIEW, QUIET, whole(terminal), { withUsers, now: Date.now() });
    output.write(lines.map((line) => `${printable(line)}\n`).join(''));
    return 0;
  }
  const { exitCode } = await watch<readonly JobSummary[]>(
    {
      look: list,
      isOver: () => false,
      frame: (seen, view, notes) => jobsFrame(seen, whose, view, notes, terminal, { withUsers, now: Date.now() }),
      orders: JOB_ORDERINGS.length,
    },
    { input: input.isTTY ? input : null, output, intervalMs },
  );
  return exitCode;
}

/** Returns a terminal without a height limit, for output that is printed only once. */
function whole(terminal: Terminal): Terminal {
  return { live: false, columns: terminal.columns, rows: Number.POSITIVE_INFINITY, paint: (style, text) => terminal.paint(style, text) };
}
