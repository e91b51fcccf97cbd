import { apiObject } from '../../../conf/status/api-object.ts';
import { listedJob, queueBelowRoot, unreportedJob } from '../../../conf/status/job-info.ts';
import type { EndedJob, Look } from '../../connections/operations/follow-job.ts';
import type { LogLine } from '../../connections/operations/log-reader.ts';
import type { JobPlan } from '../../plan/job-plan.ts';
import type { SubmitRequest } from '../../plan/submit-request.ts';
import type { StagingEvent } from '../../staging/staging.ts';
import type { ValueWriter } from '../lines/value-output.ts';
import type { JobOutput, SubmittedNotice } from './job-output.ts';

/** Writes a value for each event. If the command follows a job, the last value has the type `result`. */
export class ValueOutput implements JobOutput {
  readonly #writeValue: ValueWriter;
  readonly #drained: () => Promise<void>;

  /** @param drained resolves when the output accepts more values */
  constructor(write: ValueWriter, drained: () => Promise<void> = () => Promise.resolve()) {
    this.#writeValue = write;
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

  submitted({ trackingUrl, queue, ...known }: SubmittedNotice): void {
    const urls = { pages: trackingUrl, tracking: trackingUrl };
    const job = unreportedJob({ ...known, queue: queueBelowRoot(queue), state: 'submitted', urls });
    this.#write({ type: 'submitted', ...listedJob(job) });
  }

  pages(url: string): void {
    this.#write({ type: 'pages', urls: { pages: url } });
  }

  look({ events }: Look): void {
    for (const event of events) {
      this.#write(event);
    }
  }

  async log(lines: readonly LogLine[]): Promise<void> {
    for (const line of lines) {
      this.#write({ type: 'log', ...line });
    }
    await this.#drained();
  }

  report(job: EndedJob): void {
    this.#write({ type: 'result', ...job });
  }

  leave(text: string): void {
    this.say(text);
  }

  say(text: string): void {
    this.#write({ type: 'notice', message: text });
  }

  close(): void {}

  #write(event: { readonly type: string } & Readonly<Record<string, unknown>>): void {
    this.#writeValue(apiObject('JobEvent', event));
  }
}
