import { reportOf } from './follow-job.ts';
import type { Observation } from './job-connection.ts';
import { jobTable } from './job-table.ts';
import { reportLines } from './report-lines.ts';
import { harmless, type Terminal } from './terminal.ts';

/** A job as `tony-ts status` shows it: why it failed comes last, where the eye is. */
export function statusLines(
  { applicationId, pages }: { readonly applicationId: string; readonly pages: string | null },
  { status, phase, waiting, result }: Observation,
  terminal: Terminal,
  now: number,
): string[] {
  const lines: string[] = [];
  if (status !== null) {
    // Every task is shown, however small the window: this is no picture that is redrawn. How it ended is said once, below.
    const whole = { ...terminal, columns: terminal.columns, rows: Number.POSITIVE_INFINITY };
    lines.push(...jobTable(result === null ? status : { ...status, state: result.state, message: '' }, whole, now));
    for (const notice of status.notices) lines.push(terminal.paint('yellow', harmless(notice)));
  } else if (result === null) {
    lines.push(`${applicationId} ${phase}${waiting === '' ? '' : `: ${harmless(waiting)}`}`);
  }
  if (result !== null) lines.push(...reportLines(reportOf(applicationId, status, result), terminal));
  else if (pages !== null) lines.push(`pages: ${terminal.paint('dim', pages)}`);
  return lines;
}
