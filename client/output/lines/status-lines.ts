import { isReported, type JobInfo } from '../../../conf/status/job-info.ts';
import { silenceText } from '../../cluster/master-silence.ts';
import { hasEnded } from '../../connections/operations/follow-job.ts';
import { oneLine, type Terminal } from '../../terminal/terminal.ts';
import { jobTable } from './job-table.ts';
import { reportLines } from './report-lines.ts';

/** Returns the output of `tony-ts status`. A failure comes last, so that users see it above the shell prompt. */
export function statusLines(job: JobInfo, terminal: Terminal, now: number): string[] {
  const { id, state, message, masterSilentMs, urls } = job;
  const ended = hasEnded(job) ? job : null;
  const lines: string[] = [];
  if (isReported(job)) {
    // Show all tasks, because this output may scroll. Omit the message, because the report below repeats it.
    const whole = { ...terminal, columns: terminal.columns, rows: Number.POSITIVE_INFINITY };
    lines.push(...jobTable(ended === null ? job : { ...ended, message: '' }, whole, now));
    for (const notice of job.notices) {
      lines.push(terminal.paint('yellow', oneLine(notice)));
    }
  } else if (ended === null) {
    lines.push(`${id} ${state}${message === '' ? '' : `: ${oneLine(message)}`}`);
  }
  if (masterSilentMs !== null) {
    const old = isReported(job) ? ' The status below is its last answer.' : '';
    lines.push(terminal.paint('yellow', `${silenceText(masterSilentMs)}${old}`));
  }
  if (ended !== null) {
    lines.push(...reportLines(ended, terminal));
  } else if (urls.pages !== null) {
    lines.push(`pages: ${terminal.paint('dim', urls.pages)}`);
  }
  return lines;
}
