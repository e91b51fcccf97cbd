import type { JobReport, Look } from './follow-job.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';
import type { StagingEvent } from './staging.ts';

/** One JSON object a line; the last one of a followed job has type `result`. */
export class JsonOutput implements JobOutput {
  readonly #write: (text: string) => void;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  staging(event: StagingEvent): void {
    if (event.type === 'unchanged') this.#line({ type: 'staged', name: event.name, bytes: event.bytes, uploaded: false });
    else if (event.sent === event.total) this.#line({ type: 'staged', name: event.name, bytes: event.total, uploaded: true });
  }

  submitted(notice: SubmittedNotice): void {
    this.#line({ type: 'submitted', ...notice });
  }

  pages(url: string): void {
    this.#line({ type: 'pages', url });
  }

  look({ events }: Look): void {
    for (const event of events) this.#line(event);
  }

  report({ applicationId, state, diagnostics, tasks, metrics, generations, step, ...places }: JobReport): void {
    const brief = tasks.map(({ role, index, state: task, exitCode, attempts, failures, node, failure }) => ({
      role,
      index,
      state: task,
      exitCode,
      attempts,
      failures,
      node,
      failure,
    }));
    this.#line({ type: 'result', state, applicationId, tasks: brief, metrics, generations, step, diagnostics, ...places });
  }

  say(text: string): void {
    this.#line({ type: 'notice', message: text });
  }

  close(): void {}

  #line(value: object): void {
    this.#write(`${JSON.stringify(value)}\n`);
  }
}
