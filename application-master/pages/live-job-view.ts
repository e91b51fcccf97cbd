import type { FrozenJob } from '../../conf/job.ts';
import { type JobInfo, jobInfo } from '../../conf/status/job-info.ts';
import type { HistoryEntry, JobStatus, MasterStatus } from '../../conf/status/status.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { EventPage, JobView, LogName, LogTail, ScalarCharts, UsagePage } from '../../web/job-view.ts';
import { redacted } from '../../web/redaction.ts';
import type { ScalarReader } from '../../web/scalars/scalar-reader.ts';
import { EventLog } from '../records/event-log.ts';
import type { JobFiles } from '../records/job-files.ts';
import type { LoggedContainer, TaskLogs } from '../records/task-logs.ts';
import { sampleOf, UsageHistory } from '../records/usage-history.ts';

const SAMPLE_MS = 5_000;
/** How long the status is cached, in ms. Many viewers may poll at the same time. */
const STATUS_LIFE_MS = 250;
/** Timeout in ms for loading events from earlier attempts. After the timeout, the page is served without these events. */
const EARLIER_MS = 3_000;

export interface LiveJobViewOptions {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  readonly status: () => JobStatus;
  readonly master: () => MasterStatus;
  readonly scalars: Pick<ScalarReader, 'charts'>;
  readonly logs: Pick<TaskLogs, 'own' | 'read'>;
  readonly history: Pick<JobFiles, 'earlier' | 'sampled'>;
  readonly log: Logger;
  /** Returns the time in ms since the epoch. */
  readonly now: () => number;
}

export class LiveJobView implements JobView {
  readonly #options: LiveJobViewOptions;
  readonly #events: EventLog;
  readonly #usage = new UsageHistory();
  readonly #configuration: unknown;
  readonly #timer: NodeJS.Timeout;
  /** Web addresses of all nodes that have run a container of the job. */
  readonly #nodes = new Map<string, string>();
  #status: { readonly at: number; readonly status: JobInfo } | null = null;
  #earlier: Promise<void> | null = null;
  #knowsEarlier: boolean;

  constructor(options: LiveJobViewOptions) {
    this.#options = options;
    this.#events = new EventLog(options.attempt);
    this.#configuration = redacted(options.frozen);
    this.#knowsEarlier = options.attempt === 1;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
    this.#timer.unref();
  }

  readonly recorded = (entry: HistoryEntry): void => this.#events.record(entry);

  async status(): Promise<JobInfo> {
    return this.#statusNow();
  }

  async configuration(): Promise<unknown> {
    return this.#configuration;
  }

  async events(after: number): Promise<EventPage> {
    // To keep events in order, do not return events from this attempt until those from earlier attempts have been loaded.
    return (await this.#haveEarlier()) ? this.#events.page(after) : { entries: [], next: after };
  }

  async usage(after: number): Promise<UsagePage> {
    return (await this.#haveEarlier()) ? this.#usage.page(after) : { samples: [], next: after };
  }

  scalars(): Promise<ScalarCharts> {
    return this.#options.scalars.charts();
  }

  async log(task: string, file: LogName, tail: number): Promise<LogTail | null> {
    const { logs } = this.#options;
    if (task === 'master') {
      return logs.own(file, tail);
    }
    const owner = await this.#ownerOf(task);
    return owner === null ? null : logs.read(owner, file, tail);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #statusNow(): JobInfo {
    const at = performance.now();
    if (this.#status === null || at - this.#status.at >= STATUS_LIFE_MS) {
      this.#status = { at, status: jobInfo({ ...this.#options.status(), master: this.#options.master() }) };
      this.#learnNodes(this.#status.status);
    }
    return this.#status.status;
  }

  #sample(): void {
    const status = this.#statusNow();
    this.#usage.add(sampleOf(status.tasks, this.#options.now()));
    this.#options.history.sampled(() => this.#usage.samples);
  }

  #learnNodes(status: JobInfo): void {
    for (const { node, nodeHttp } of status.tasks) {
      if (node !== null && nodeHttp) {
        this.#nodes.set(node, nodeHttp);
      }
    }
  }

  /** Loads the records from earlier attempts once. If this fails, the next request tries again. */
  async #haveEarlier(): Promise<boolean> {
    if (this.#knowsEarlier) {
      return true;
    }
    this.#earlier ??= this.#readEarlier();
    await withTimeout(this.#earlier, EARLIER_MS, () => {});
    return this.#knowsEarlier;
  }

  async #readEarlier(): Promise<void> {
    try {
      const attempts = await this.#options.history.earlier();
      this.#events.prepend(attempts);
      this.#usage.prepend(attempts.flatMap(({ samples }) => samples));
      this.#knowsEarlier = true;
    } catch (error) {
      this.#options.log.warn({ error: messageOf(error) }, 'could not read the events of earlier attempts; trying again');
    } finally {
      this.#earlier = null;
    }
  }

  /**
   * Finds the container whose log is requested. `task` is a container ID, or a name such as `worker:0`, which stands for the task's newest
   * container.
   */
  async #ownerOf(task: string): Promise<LoggedContainer | null> {
    const present = this.#statusNow().tasks.find(({ role, index, containerId }) => `${role}:${index}` === task || containerId === task);
    if (present?.containerId) {
      return { containerId: present.containerId, nodeHttp: present.nodeHttp || this.#webOf(present.node) };
    }
    await this.#haveEarlier();
    const entry = this.#events.last(
      ({ role, index, containerId }) => containerId !== undefined && (containerId === task || `${role}:${index}` === task),
    );
    if (entry?.containerId === undefined) {
      return null;
    }
    const { containerId } = entry;
    const placed = this.#events.last((each) => each.containerId === containerId && each.node !== undefined);
    return { containerId, nodeHttp: this.#webOf(placed?.node ?? null) };
  }

  #webOf(node: string | null): string | null {
    return node === null ? null : (this.#nodes.get(node) ?? null);
  }
}
