import { isEndState, type JobStatus } from '../../../../conf/status/status.ts';
import type { EventPage, LogName, LogTail, ScalarCharts, UsagePage } from '../../../job-view.ts';
import { ApiError, getJson } from './api.ts';
import { PolledResource } from './polled-resource.ts';
import { withSamples } from './usage-history.ts';

const JOB_EVERY_MS = 2_000;
/** The deadline for a status request, in ms. It is short because the ApplicationMaster answers such requests from memory. */
const JOB_DEADLINE_MS = 4_000;
const CHARTS_EVERY_MS = 5_000;
const LOG_EVERY_MS = 2_000;

export function isOver(status: JobStatus | null): boolean {
  return status !== null && isEndState(status.state);
}

export class JobResources {
  readonly job: PolledResource<JobStatus>;
  readonly events: PolledResource<EventPage>;
  readonly usage: PolledResource<UsagePage>;
  readonly scalars: PolledResource<ScalarCharts>;
  readonly configuration: PolledResource<unknown>;

  constructor() {
    this.job = new PolledResource({
      load: () => getJson<JobStatus>('job', {}, JOB_DEADLINE_MS),
      everyMs: JOB_EVERY_MS,
      isComplete: isOver,
    });
    const isLast = this.#isLast;
    this.events = new PolledResource<EventPage>({
      load: async (known) => {
        const page = await getJson<EventPage>('events', { after: known?.next ?? 0 });
        return { entries: [...(known?.entries ?? []), ...page.entries], next: page.next };
      },
      everyMs: CHARTS_EVERY_MS,
      isLast,
    });
    this.usage = new PolledResource<UsagePage>({
      load: async (known) => {
        const page = await getJson<UsagePage>('usage', { after: known?.next ?? 0 });
        return { samples: withSamples(known?.samples ?? [], page.samples), next: page.next };
      },
      everyMs: CHARTS_EVERY_MS,
      isLast,
    });
    this.scalars = new PolledResource({ load: () => getJson<ScalarCharts>('scalars'), everyMs: CHARTS_EVERY_MS, isLast });
    // job.json does not change after the job is submitted.
    this.configuration = new PolledResource({
      load: () => getJson<unknown>('configuration'),
      everyMs: CHARTS_EVERY_MS,
      isComplete: () => true,
    });
  }

  log(options: { task: string; file: LogName; tail: number; follow: boolean }): PolledResource<LogTail | 'none'> {
    const { task, file, tail, follow } = options;
    return new PolledResource<LogTail | 'none'>({
      load: async () => {
        try {
          return await getJson<LogTail>('log', { task, file, tail });
        } catch (error) {
          if (error instanceof ApiError && error.kind === 'missing') {
            return 'none';
          }
          throw error;
        }
      },
      everyMs: LOG_EVERY_MS,
      isLast: this.#isLast,
      isComplete: () => !follow,
    });
  }

  readonly #isLast = (): boolean => isOver(this.job.reading.data);
}
