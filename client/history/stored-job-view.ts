import { type JobInfo, jobInfo } from '../../conf/status/job-info.ts';
import type { HistoryEntry } from '../../conf/status/status.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { withoutEnd } from '../../platform/text/without-end.ts';
import { joinUri } from '../../storage/uri.ts';
import type { EventPage, JobView, LogName, LogTail, ScalarCharts, UsagePage } from '../../web/job-view.ts';
import { redacted } from '../../web/redaction.ts';
import { ScalarReader } from '../../web/scalars/scalar-reader.ts';
import { orderContainers } from '../job/task-containers.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import { readConfiguration, readRecord, readSamples } from '../records/job-record.ts';
import { storedStatus } from '../records/stored-status.ts';

/** How long (ms) an unfinished job's files are cached. Kept short because the job may still change its files. */
const FRESH_MS = 2_000;
const EVENTS_AT_ONCE = 5_000;
/** Estimated memory (bytes) for each task in a status. Even a short job.json can define a very large number of tasks. */
const TASK_BYTES = 300;

export interface StoredJobViewOptions {
  readonly store: HistoryStore;
  readonly place: JobPlace;
  /** Requests the status of the running job. Resolves to null if the job does not respond. */
  readonly live?: (() => Promise<JobInfo | null>) | undefined;
  /**
   * Whether the job's files may refer to a summary folder outside the job's history. True only with token access. With other kinds of
   * access, visitors could use a job's files to read files to which they have no access.
   */
  readonly anywhere: boolean;
  readonly log: Logger;
}

interface Loaded {
  readonly entries: readonly HistoryEntry[];
  readonly status: JobInfo;
  /** Whether the job has written its final status, after which its files do not change. The final status may be damaged. */
  readonly isFinal: boolean;
  readonly bytes: number;
  readonly at: number;
}

/** Data for a job's pages, read from the job's history. */
export class StoredJobView implements JobView {
  readonly #options: StoredJobViewOptions;
  #loaded: Loaded | null = null;
  #loading: Promise<Loaded> | null = null;
  #samples: { readonly of: Loaded; readonly read: ReturnType<typeof readSamples> } | null = null;
  #sampleBytes = 0;
  #scalars: { readonly dir: string; readonly reader: ScalarReader } | null = null;

  constructor(options: StoredJobViewOptions) {
    this.#options = options;
  }

  async status(): Promise<JobInfo> {
    return (await this.#load()).status;
  }

  async configuration(): Promise<unknown> {
    const configuration = await readConfiguration(this.#options.store.storage, this.#options.place);
    if (configuration === undefined) {
      throw new TonyError('NOT_FOUND', 'The job.json file of this job is missing or damaged.');
    }
    return redacted(configuration);
  }

  async events(after: number): Promise<EventPage> {
    const { entries } = await this.#load();
    const page = entries.slice(after, after + EVENTS_AT_ONCE);
    return { entries: page, next: Math.min(after, entries.length) + page.length };
  }

  async usage(after: number): Promise<UsagePage> {
    const loaded = await this.#load();
    if (this.#samples?.of !== loaded) {
      const read = readSamples(this.#options.store.storage, this.#options.place);
      read.then(
        ({ bytes }) => {
          this.#sampleBytes = bytes;
        },
        () => undefined,
      );
      this.#samples = { of: loaded, read };
    }
    const all = await this.#samples.read;
    const samples = all.samples.filter(({ at }) => at > after);
    return { samples, next: samples.at(-1)?.at ?? after };
  }

  async scalars(): Promise<ScalarCharts> {
    const dir = await this.summaryDir();
    if (dir === null) {
      const { summaryUri } = await this.status();
      return {
        runs: [],
        message: `The summaries are in ${summaryUri}. ${this.whyUnreadable}`,
      };
    }
    if (this.#scalars?.dir !== dir) {
      this.#scalars?.reader.close();
      this.#scalars = { dir, reader: new ScalarReader({ storage: this.#options.store.storage, dir, log: this.#options.log }) };
    }
    return this.#scalars.reader.charts();
  }

  /** Explains why `summaryDir` returns null. */
  get whyUnreadable(): string {
    return this.#options.anywhere
      ? "For another user's job, tony-ts reads only file systems that the Hadoop configuration names."
      : 'This server reads only the history folder. To see the summaries, run `tony-ts tensorboard`.';
  }

  /** Returns the URI of the summary folder, or null if the server must not read the folder. */
  async summaryDir(): Promise<string | null> {
    const { folder } = this.#options.place;
    const { summaryUri } = await this.status();
    if (summaryUri === '') {
      return joinUri(folder, 'summaries');
    }
    const clean = !summaryUri.split('/').some((part) => part === '.' || part === '..');
    const inside = clean && summaryUri.startsWith(`${withoutEnd(folder, '/')}/`);
    const ownKind = summaryUri.split(':', 1)[0] === folder.split(':', 1)[0];
    const { anywhere, store, place } = this.#options;
    return inside || (anywhere && clean && ownKind && store.mayRead(place, summaryUri)) ? summaryUri : null;
  }

  async log(task: string, file: LogName, tail: number): Promise<LogTail | null> {
    const { store, place } = this.#options;
    const { entries, status } = await this.#load();
    const containerId = await this.#containerOf(task, entries, status);
    if (containerId === null) {
      return null;
    }
    const piece = await store.log(place, containerId, file, tail);
    if (piece === null) {
      const why = status.finishedAt === null ? 'become available when the job has ended' : 'were removed, or are not aggregated yet';
      throw new TonyError('LOGS_UNAVAILABLE', `${task} has no ${file}: its logs ${why}.`);
    }
    return { text: Buffer.from(piece.bytes).toString('utf8'), skipped: piece.end - piece.bytes.length };
  }

  close(): void {
    this.#scalars?.reader.close();
  }

  /** Estimated memory use (bytes), based on the sizes of the files. */
  get bytes(): number {
    return (this.#loaded?.bytes ?? 0) + this.#sampleBytes;
  }

  async #containerOf(task: string, entries: readonly HistoryEntry[], status: JobInfo): Promise<string | null> {
    if (task === 'master') {
      return (await this.#options.store.masters(this.#options.place, entries)).at(-1) ?? null;
    }
    const containers = orderContainers(status.tasks, entries);
    const found = task.startsWith('container_')
      ? containers.find(({ containerId }) => containerId === task)
      : containers.findLast((each) => each.task === task);
    return found?.containerId ?? null;
  }

  /** Reads the job's files, unless a cached result is final or recent. */
  async #load(): Promise<Loaded> {
    const known = this.#loaded;
    if (known !== null && (known.isFinal || performance.now() - known.at < FRESH_MS)) {
      return known;
    }
    this.#loading ??= this.#read().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #read(): Promise<Loaded> {
    const { store, place, live } = this.#options;
    const at = performance.now();
    const record = await readRecord(store.storage, place, true);
    const answer = record.final === null ? (await store.answers([place])).get(place.folder) : undefined;
    const runs = typeof answer === 'object' && answer.result === null;
    const current = runs ? await live?.() : null;
    const status = current ?? jobInfo(storedStatus(record, answer ?? 'forgotten'));
    const bytes = record.bytes + status.tasks.length * TASK_BYTES;
    this.#loaded = { entries: record.entries, status, isFinal: record.final !== null, bytes, at };
    return this.#loaded;
  }
}
