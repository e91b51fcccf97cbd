import type { JobReport, Look } from '../../connections/operations/follow-job.ts';
import type { LogLine } from '../../connections/operations/log-reader.ts';
import type { JobPlan } from '../../plan/job-plan.ts';
import type { SubmitRequest } from '../../plan/submit-request.ts';
import type { StagingEvent } from '../../staging/staging.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';

/** Writes a value for each event. If the command follows a job, the last value has the type `result`. */
export class ValueOutput implements JobOutput {
  readonly #write: (value: unknown) => void;
  readonly #drained: () => Promise<void>;

  /** @param drained resolves when the output accepts more values */
  constructor(write: (value: unknown) => void, drained: () => Promise<void> = () => Promise.resolve()) {
    this.#write = write;
    this.#drained = drained;
  }

  plan(plan: JobPlan): void {
    this.#write({ type: 'plan', ...plan });
  }

  request(request: SubmitRequest): void {
    this.#write({ type: 'request', ...request });
  }

  staging(event: StagingEvent): void {
    if (event.type === 'unchanged') {
      this.#write({ type: 'staged', name: event.name, bytes: event.bytes, uploaded: false });
    } else if (event.sent === event.total) {
      this.#write({ type: 'staged', name: event.name, bytes: event.total, uploaded: true });
    }
  }

  submitted(notice: SubmittedNotice): void {
    this.#write({ type: 'submitted', ...notice });
  }

  pages(url: string): void {
    this.#write({ type: 'pages', url });
  }

  look({ events }: Look): void {
    for (const event of events) {
      this.#write(event);
    }
  }

  async log(lines: readonly LogLine[]): Promise<void> {
    for (const { task, containerId, file, text } of lines) {
      this.#write({ type: 'log', task, container: containerId, file, text });
    }
    await this.#drained();
  }

  report({ applicationId, state, diagnostics, tasks, metrics, generations, step, ...places }: JobReport): void {
    const brief = tasks.map(({ role, index, state: task, exit, attempts, programStarts, failures, node, failure }) => ({
      role,
      index,
      state: task,
      exit,
      attempts,
      programStarts,
      failures,
      node,
      failure,
    }));
    this.#write({ type: 'result', state, applicationId, tasks: brief, metrics, generations, step, diagnostics, ...places });
  }

  leave(text: string): void {
    this.say(text);
  }

  say(text: string): void {
    this.#write({ type: 'notice', message: text });
  }

  close(): void {}
}
