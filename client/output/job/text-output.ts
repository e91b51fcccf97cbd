import { isReported } from '../../../conf/status/job-info.ts';
import { isEndState } from '../../../conf/status/status.ts';
import type { EndedJob, Look } from '../../connections/operations/follow-job.ts';
import type { JobEvent } from '../../connections/operations/job-events.ts';
import type { LogLine } from '../../connections/operations/log-reader.ts';
import type { JobPlan } from '../../plan/job-plan.ts';
import { planLines, requestLines } from '../../plan/plan-lines.ts';
import type { SubmitRequest } from '../../plan/submit-request.ts';
import type { StagingEvent } from '../../staging/staging.ts';
import { printable, type Terminal } from '../../terminal/terminal.ts';
import { eventLine, reportLines, stagingLine, submittedLine, uploadFacts } from '../lines/report-lines.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';

/** Minimum interval (ms) between lines with metrics. Limits the size of log files. */
const METRICS_EVERY_MS = 10_000;
/** Minimum interval (ms) between lines that explain why a job is waiting. Without it, each new container could produce a line. */
const WAIT_EVERY_MS = 10_000;
/** Minimum interval (ms) between progress lines for an upload. */
const UPLOAD_EVERY_MS = 10_000;

/** Prints a line of text for each change, for logs, pipes and CI. */
export class TextOutput implements JobOutput {
  readonly #write: (text: string) => void;
  readonly #terminal: Terminal;
  readonly #isLocal: boolean;
  readonly #clock: () => number;
  readonly #writeLog: (lines: readonly LogLine[]) => Promise<void>;
  readonly #uploads = new Map<string, { readonly since: number; readonly shownAt: number }>();
  #metricsAt = Number.NEGATIVE_INFINITY;
  #state = '';
  #isReported = false;
  #stateAt = Number.NEGATIVE_INFINITY;

  /**
   * @param isLocal whether the job runs on this machine
   * @param writeLog writes lines of program output, and resolves when the output accepts more
   */
  constructor(
    write: (text: string) => void,
    terminal: Terminal,
    isLocal: boolean,
    clock: () => number = () => performance.now(),
    writeLog: (lines: readonly LogLine[]) => Promise<void> = () => Promise.resolve(),
  ) {
    this.#write = write;
    this.#writeLog = writeLog;
    this.#clock = clock;
    this.#terminal = terminal;
    this.#isLocal = isLocal;
  }

  plan(plan: JobPlan): void {
    this.#lines(planLines(plan, this.#terminal));
  }

  request(request: SubmitRequest): void {
    this.#lines(requestLines(request));
  }

  staging(event: StagingEvent): void {
    const line = stagingLine(event, this.#isLocal) ?? this.#progress(event);
    if (line !== undefined) {
      this.say(line);
    }
  }

  /** Returns a progress line, unless the last one was printed less than UPLOAD_EVERY_MS ago. */
  #progress(event: StagingEvent): string | undefined {
    if (event.type === 'unchanged') {
      return undefined;
    }
    const now = this.#clock();
    const { since, shownAt } = this.#uploads.get(event.name) ?? { since: now, shownAt: now };
    const isDue = now - shownAt >= UPLOAD_EVERY_MS;
    this.#uploads.set(event.name, { since, shownAt: isDue ? now : shownAt });
    return !isDue ? undefined : uploadFacts(event.name, event.sent, event.total, now - since);
  }

  submitted(notice: SubmittedNotice): void {
    const { trackingUrl } = notice;
    this.say(submittedLine(notice));
    if (trackingUrl !== null) {
      this.say(trackingUrl);
    }
  }

  pages(url: string): void {
    this.say(`pages: ${url}`);
  }

  look({ events, job }: Look): void {
    // What the tasks wait for differs from what the ApplicationMaster waits for, although the state is the same.
    if (isReported(job) && !this.#isReported) {
      this.#isReported = true;
      this.#state = '';
    }
    for (const event of events) {
      if (this.#isWorthALine(event)) {
        this.say(eventLine(event, this.#terminal, job.tasks));
      }
    }
  }

  #isWorthALine(event: JobEvent): boolean {
    const now = this.#clock();
    switch (event.type) {
      case 'state':
        // The report below shows the final state.
        if (isEndState(event.state) || (event.state === this.#state && now - this.#stateAt < WAIT_EVERY_MS)) {
          return false;
        }
        this.#state = event.state;
        this.#stateAt = now;
        return true;
      case 'metrics':
        if (now - this.#metricsAt < METRICS_EVERY_MS) {
          return false;
        }
        this.#metricsAt = now;
        return true;
      case 'task':
        // Every task begins in the `requested` state. Only a failed task returns to it.
        return event.state !== 'requested' || event.failure !== null;
      case 'checkpoint':
      case 'notice':
        return true;
    }
  }

  log(lines: readonly LogLine[]): Promise<void> {
    return this.#writeLog(lines);
  }

  report(report: EndedJob): void {
    this.#lines(reportLines(report, this.#terminal));
  }

  #lines(lines: readonly string[]): void {
    for (const line of lines) {
      this.say(line);
    }
  }

  leave(text: string): void {
    this.say(text);
  }

  say(text: string): void {
    this.#write(`${printable(text)}\n`);
  }

  close(): void {}
}
