import { isReported } from '../../../conf/status/job-info.ts';
import type { EndedJob, Look } from '../../connections/operations/follow-job.ts';
import type { JobEvent } from '../../connections/operations/job-events.ts';
import type { LogLine } from '../../connections/operations/log-reader.ts';
import type { JobPlan } from '../../plan/job-plan.ts';
import { planLines, requestLines } from '../../plan/plan-lines.ts';
import type { SubmitRequest } from '../../plan/submit-request.ts';
import type { StagingEvent } from '../../staging/staging.ts';
import { oneLine, printable, type Terminal, wrap } from '../../terminal/terminal.ts';
import { fold } from '../../terminal/text-width.ts';
import { jobTable } from '../lines/job-table.ts';
import { LogLines } from '../lines/log-lines.ts';
import { eventLine, reportedFailure, reportLines, stagingLine, submittedLine, uploadBar } from '../lines/report-lines.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';

const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
/** Enough for the reason why an application waits, with its advice, on 80 columns. */
const WAITING_LINES = 8;

/** Redraws the upload bars or the job table on the last lines of a terminal. All other lines scroll up above them. */
export class LiveOutput implements JobOutput {
  readonly #write: (text: string) => void;
  readonly #terminal: Terminal;
  readonly #isLocal: boolean;
  readonly #clock: () => number;
  readonly #uploads = new Map<string, { sent: number; total: number; since: number }>();
  readonly #programs = new LogLines({ prefixed: true });
  #look: Look | null = null;
  #question = '';
  /** Number of lines that the next frame overwrites. */
  #drawn = 0;
  #hidden = false;

  constructor(write: (text: string) => void, terminal: Terminal, isLocal: boolean, clock: () => number = Date.now) {
    this.#write = write;
    this.#terminal = terminal;
    this.#isLocal = isLocal;
    this.#clock = clock;
  }

  plan(plan: JobPlan): void {
    this.#draw(planLines(plan, this.#terminal));
  }

  request(request: SubmitRequest): void {
    this.#draw(requestLines(request));
  }

  staging(event: StagingEvent): void {
    if (event.type === 'upload' && event.sent < event.total) {
      const { since } = this.#uploads.get(event.name) ?? { since: this.#clock() };
      this.#uploads.set(event.name, { sent: event.sent, total: event.total, since });
      this.#draw([]);
      return;
    }
    this.#uploads.delete(event.name);
    this.#draw([stagingLine(event, this.#isLocal) ?? '']);
  }

  submitted(notice: SubmittedNotice): void {
    const { id, trackingUrl } = notice;
    const line = submittedLine({ ...notice, id: this.#terminal.paint('bold', id) });
    this.#draw(trackingUrl === null ? [line] : [line, this.#terminal.paint('dim', trackingUrl)]);
  }

  pages(url: string): void {
    this.#draw([`pages: ${this.#terminal.paint('dim', url)}`]);
  }

  look(look: Look): void {
    this.#look = look;
    // The table shows only the current state, so print notices and failures as permanent lines.
    this.#draw(
      look.events
        .filter((event) => event.type === 'notice' || (event.type === 'task' && isOwnFailure(event)))
        .map((event) => eventLine(event, this.#terminal, look.job.tasks)),
    );
  }

  /** Node.js writes to a terminal synchronously, so the output always accepts more. */
  async log(lines: readonly LogLine[], tasks: readonly string[]): Promise<void> {
    this.#programs.expect(tasks);
    this.#draw(lines.map((line) => this.#programs.line(line, this.#terminal).trimEnd()));
  }

  report(report: EndedJob): void {
    this.#question = '';
    // Leave the last table on the screen, but omit its message, because the report repeats it.
    if (this.#look !== null) {
      this.#look = isReported(this.#look.job) ? { ...this.#look, job: { ...this.#look.job, message: '' } } : null;
    }
    this.#draw([]);
    this.#drawn = 0;
    this.#look = null;
    this.#draw(reportLines(report, this.#terminal));
  }

  leave(text: string): void {
    this.#question = '';
    this.#draw([]);
    this.#drawn = 0;
    this.#look = null;
    this.#draw([text]);
  }

  say(text: string): void {
    this.#draw([text]);
  }

  /** Shows a question below the table. An empty string removes the question. */
  ask(question: string): void {
    this.#question = question;
    this.#draw([]);
  }

  close(): void {
    if (this.#hidden) {
      this.#write(SHOW_CURSOR);
    }
    this.#hidden = false;
  }

  #draw(above: readonly string[]): void {
    const frame = [...this.#uploadLines(), ...this.#jobLines(), ...(this.#question === '' ? [] : [this.#question])];
    const back = this.#drawn > 0 ? `\x1b[${this.#drawn}A\r\x1b[J` : '';
    const hides = frame.length > 0;
    const cursor = hides === this.#hidden ? '' : hides ? HIDE_CURSOR : SHOW_CURSOR;
    this.#hidden = hides;
    this.#drawn = frame.length;
    const lines = above.flatMap((text) => text.split('\n')).flatMap((line) => fold(line, this.#terminal.columns - 1));
    this.#write(`${cursor}${back}${[...lines, ...frame].map((line) => `${printable(line)}\n`).join('')}`);
  }

  #uploadLines(): string[] {
    return [...this.#uploads].map(([name, { sent, total, since }]) =>
      uploadBar(name, sent, total, this.#clock() - since, this.#terminal.columns),
    );
  }

  #jobLines(): string[] {
    if (this.#look === null) {
      return [];
    }
    const { job } = this.#look;
    if (isReported(job)) {
      return jobTable(job, this.#terminal, this.#clock());
    }
    const text = oneLine(job.message === '' ? job.state : `${job.state}: ${job.message}`);
    return wrap(text, Math.max(20, this.#terminal.columns - 1), WAITING_LINES).map((line) => this.#terminal.paint('yellow', line));
  }
}

/** Returns true if a task has failed, unless it failed only because it lost its peers: a single failure can end all ranked tasks. */
function isOwnFailure(event: Extract<JobEvent, { type: 'task' }>): boolean {
  const failure = reportedFailure(event);
  return failure === null ? event.state === 'failed' || event.state === 'lost' : failure.cost !== 'victim';
}
