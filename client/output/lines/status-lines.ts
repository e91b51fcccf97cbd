import { silenceText } from '../../cluster/master-silence.ts';
import type { Observation } from '../../connections/job-connection.ts';
import { reportOf } from '../../connections/operations/follow-job.ts';
import { oneLine, type Terminal } from '../../terminal/terminal.ts';
import { jobTable } from './job-table.ts';
import { reportLines } from './report-lines.ts';

/** Returns the output of `tony-ts status`. A failure comes last, so that users see it above the shell prompt. */
export function statusLines(
  { applicationId, pages }: { readonly applicationId: string; readonly pages: string | null },
  { status, phase, waiting, masterSilentMs, result }: Observation,
  terminal: Terminal,
  now: number,
): string[] {
  const lines: string[] = [];
  if (status !== null) {
    // Show all tasks, because this output may scroll. Omit the message, because the report below repeats it.
    const whole = { ...terminal, columns: terminal.columns, rows: Number.POSITIVE_INFINITY };
    lines.push(...jobTable(result === null ? status : { ...status, state: result.state, message: '' }, whole, now));
    for (const notice of status.notices) {
      lines.push(terminal.paint('yellow', oneLine(notice)));
    }
  } else if (result === null) {
    lines.push(`${applicationId} ${phase}${waiting === '' ? '' : `: ${oneLine(waiting)}`}`);
  }
  if (masterSilentMs !== null) {
    const old = status === null ? '' : ' The status below is its last answer.';
    lines.push(terminal.paint('yellow', `${silenceText(masterSilentMs)}${old}`));
  }
  if (result !== null) {
    lines.push(...reportLines(reportOf(applicationId, status, result), terminal));
  } else if (pages !== null) {
    lines.push(`pages: ${terminal.paint('dim', pages)}`);
  }
  return lines;
}
