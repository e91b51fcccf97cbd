import type { JobInfo } from '../../../../conf/status/job-info.ts';
import { isEndState } from '../../../../conf/status/status.ts';
import type { EventPage, LogName, LogTail, ScalarCharts, ScalarRun, ScalarSeries, UsagePage } from '../../../job-view.ts';
import { ApiError, getJson } from './api.ts';
import { PolledResource } from './polled-resource.ts';
import { withSamples } from './usage-history.ts';

const JOB_EVERY_MS = 2_000;
/** The deadline for a status request, in ms. It is short because the ApplicationMaster answers such requests from memory. */
const JOB_DEADLINE_MS = 4_000;
const CHARTS_EVERY_MS = 5_000;
const LOG_EVERY_MS = 2_000;

export function isOver(status: JobInfo | null): boolean {
  return status !== null && isEndState(status.state);
}

/** A response with the curves. Each time is in RFC 3339. */
interface SentScalars extends Pick<ScalarCharts, 'message'> {
  readonly runs: readonly (Omit<ScalarRun, 'scalars'> & {
    readonly scalars: readonly (Omit<ScalarSeries, 'times'> & { readonly times: readonly string[] })[];
  })[];
}

async function readScalars(): Promise<ScalarCharts> {
  const { runs, message } = await getJson<SentScalars>('scalars');
  return {
    runs: runs.map(({ name, scalars }) => ({
      name,
      scalars: scalars.map((one) => ({ ...one, times: one.times.map((time) => Date.parse(time) / 1000) })),
    })),
    message,
  };
}

async function readConfiguration(): Promise<unknown> {
  return (await getJson<{ readonly configuration: unknown }>('configuration')).configuration;
}

export class JobResources {
  readonly job: PolledResource<JobInfo>;
  readonly events: PolledResource<EventPage>;
  readonly usage: PolledResource<UsagePage>;
  readonly scalars: PolledResource<ScalarCharts>;
  readonly configuration: PolledResource<unknown>;

  constructor() {
    this.job = new PolledResource({
      load: () => getJson<JobInfo>('job', {}, JOB_DEADLINE_MS),
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
    this.scalars = new PolledResource({ load: () => readScalars(), everyMs: CHARTS_EVERY_MS, isLast });
    // job.json does not change after the job is submitted.
    this.configuration = new PolledResource({
      load: () => readConfiguration(),
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
