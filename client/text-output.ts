import type { JobReport, Look } from './follow-job.ts';
import type { JobEvent } from './job-events.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';
import type { JobPlan } from './plan/job-plan.ts';
import { planLines, requestLines } from './plan/plan-lines.ts';
import { eventLine, reportLines, stagingLine, uploadFacts } from './report-lines.ts';
import type { StagingEvent } from './staging.ts';
import type { SubmitRequest } from './submit-yarn.ts';
import type { Terminal } from './terminal.ts';

/** A log file should tell that training goes on without being made of it. */
const METRICS_EVERY_MS = 10_000;
/** Why a job waits may change with every container that comes. */
const WAIT_EVERY_MS = 10_000;
/** Of an upload that is under way. */
const UPLOAD_EVERY_MS = 10_000;
const ENDS: ReadonlySet<string> = new Set(['SUCCEEDED', 'FAILED', 'KILLED']);

/** Lines of text, one for each change: for logs, pipes and CI. */
export class TextOutput implements JobOutput {
  readonly #write: (text: string) => void;
  readonly #terminal: Terminal;
  readonly #where: string;
  readonly #clock: () => number;
  readonly #uploads = new Map<string, { readonly since: number; readonly told: number }>();
  #metricsAt = Number.NEGATIVE_INFINITY;
  #state = '';
  #stateAt = Number.NEGATIVE_INFINITY;

  /** `where` says where staged things lie, e.g. `on HDFS`. */
  constructor(write: (text: string) => void, terminal: Terminal, where: string, clock: () => number = () => performance.now()) {
    this.#write = write;
    this.#clock = clock;
    this.#terminal = terminal;
    this.#where = where;
  }

  plan(plan: JobPlan): void {
    for (const line of planLines(plan, this.#terminal)) this.say(line);
  }

  request(request: SubmitRequest): void {
    for (const line of requestLines(request)) this.say(line);
  }

  staging(event: StagingEvent): void {
    const line = stagingLine(event, this.#where) ?? this.#progress(event);
    if (line !== undefined) this.say(line);
  }

  /** What takes long is heard of now and again. */
  #progress(event: StagingEvent): string | undefined {
    if (event.type === 'unchanged') return undefined;
    const now = this.#clock();
    const { since, told } = this.#uploads.get(event.name) ?? { since: now, told: now };
    if (now - told < UPLOAD_EVERY_MS) {
      this.#uploads.set(event.name, { since, told });
      return undefined;
    }
    this.#uploads.set(event.name, { since, told: now });
    return uploadFacts(event.name, event.sent, event.total, now - since);
  }

  submitted({ applicationId, queue, trackingUrl }: SubmittedNotice): void {
    this.say(trackingUrl === null ? `started ${applicationId}` : `submitted ${applicationId} to queue ${queue}`);
    if (trackingUrl !== null) this.say(trackingUrl);
  }

  pages(url: string): void {
    this.say(`pages: ${url}`);
  }

  look({ events }: Look): void {
    for (const event of events) if (this.#isWorthALine(event)) this.say(eventLine(event, this.#terminal));
  }

  #isWorthALine(event: JobEvent): boolean {
    const now = this.#clock();
    switch (event.type) {
      case 'state':
        // How it ended is told by the report, with the reason.
        if (ENDS.has(event.state) || (event.state === this.#state && now - this.#stateAt < WAIT_EVERY_MS)) return false;
        this.#state = event.state;
        this.#stateAt = now;
        return true;
      case 'metrics':
        if (now - this.#metricsAt < METRICS_EVERY_MS) return false;
        this.#metricsAt = now;
        return true;
      case 'task':
        // That every task is wanted at first says nothing.
        return event.state !== 'requested' || event.failure !== null;
      case 'checkpoint':
      case 'notice':
        return true;
    }
  }

  report(report: JobReport): void {
    for (const line of reportLines(report, this.#terminal)) this.say(line);
  }

  say(text: string): void {
    this.#write(`${text}\n`);
  }

  close(): void {}
}
