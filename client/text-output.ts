import type { JobReport, Look } from './follow-job.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';
import { eventLine, reportLines, stagingLine } from './report-lines.ts';
import type { StagingEvent } from './staging.ts';
import type { Terminal } from './terminal.ts';

/** A log file should tell that training goes on without being made of it. */
const METRICS_EVERY_MS = 10_000;

/** Lines of text, one for each change: for logs, pipes and CI. */
export class TextOutput implements JobOutput {
  readonly #write: (text: string) => void;
  readonly #terminal: Terminal;
  readonly #where: string;
  #metricsAt = Number.NEGATIVE_INFINITY;

  /** `where` says where staged things lie, e.g. `on HDFS`. */
  constructor(write: (text: string) => void, terminal: Terminal, where: string) {
    this.#write = write;
    this.#terminal = terminal;
    this.#where = where;
  }

  staging(event: StagingEvent): void {
    const line = stagingLine(event, this.#where);
    if (line !== undefined) this.say(line);
  }

  submitted({ applicationId, queue, trackingUrl }: SubmittedNotice): void {
    this.say(trackingUrl === null ? `started ${applicationId}` : `submitted ${applicationId} to queue ${queue}`);
    if (trackingUrl !== null) this.say(trackingUrl);
  }

  look({ observation, events }: Look): void {
    for (const event of events) {
      // The report says it, with the reason.
      if (event.type === 'state' && observation.result !== null) continue;
      if (event.type === 'metrics') {
        if (performance.now() - this.#metricsAt < METRICS_EVERY_MS) continue;
        this.#metricsAt = performance.now();
      }
      this.say(eventLine(event, this.#terminal));
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
