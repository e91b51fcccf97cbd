import { TonyError } from '../../conf/errors.ts';
import type { Logger } from '../../conf/log.ts';
import type { JobStatus, UsageSample } from '../../conf/status.ts';
import { joinUri } from '../../storage/uri.ts';
import type { EventPage, JobView, LogFile, LogTail, ScalarCharts, UsagePage } from '../../web/job-view.ts';
import { redacted } from '../../web/redaction.ts';
import { ScalarReader } from '../../web/scalars/scalar-reader.ts';
import { orderContainers } from '../task-containers.ts';
import type { HistoryStore, JobPlace } from './history-store.ts';
import { readConfiguration, readRecord, readSamples } from './job-record.ts';
import { type JobRecord, storedStatus } from './stored-status.ts';

/** A job that has not left its end may still write. */
const FRESH_MS = 2_000;
const EVENTS_AT_ONCE = 5_000;
/** Values of single tasks in one answer: a browser draws no more. */
const MAXIMUM_TASK_SAMPLES = 20_000;

export interface StoredJobViewOptions {
  readonly store: HistoryStore;
  readonly place: JobPlace;
  /** Asks the job itself while it runs; null when it does not answer. */
  readonly live?: (() => Promise<JobStatus | null>) | undefined;
  /**
   * Where files that the job has written may send the reader for summaries: for somebody who looks with rights of their own, wherever it says; a
   * server that looks for others stays in the job's own folder.
   */
  readonly anywhere: boolean;
  readonly log: Logger;
}

interface Loaded {
  readonly record: JobRecord;
  readonly status: JobStatus;
  readonly at: number;
}

/** What the pages show of a job by its history. */
export class StoredJobView implements JobView {
  readonly #options: StoredJobViewOptions;
  #loaded: Loaded | null = null;
  #loading: Promise<Loaded> | null = null;
  #samples: { readonly of: Loaded; readonly samples: Promise<readonly UsageSample[]> } | null = null;
  #scalars: { readonly dir: string; readonly reader: ScalarReader } | null = null;

  constructor(options: StoredJobViewOptions) {
    this.#options = options;
  }

  async status(): Promise<JobStatus> {
    return (await this.#load()).status;
  }

  async configuration(): Promise<unknown> {
    const configuration = await readConfiguration(this.#options.store.storage, this.#options.place);
    if (configuration === undefined) throw new TonyError('NOT_FOUND', 'job.json of this job is missing or damaged.');
    return redacted(configuration);
  }

  async events(after: number): Promise<EventPage> {
    const { entries } = (await this.#load()).record;
    const page = entries.slice(after, after + EVENTS_AT_ONCE);
    return { entries: page, next: Math.min(after, entries.length) + page.length };
  }

  async usage(after: number): Promise<UsagePage> {
    const loaded = await this.#load();
    if (this.#samples?.of !== loaded) {
      const samples = readSamples(this.#options.store.storage, this.#options.place).then((all) => thinned(all, MAXIMUM_TASK_SAMPLES));
      samples.catch(() => undefined);
      this.#samples = { of: loaded, samples };
    }
    const samples = (await this.#samples.samples).filter(({ at }) => at > after);
    return { samples, next: samples.at(-1)?.at ?? after };
  }

  async scalars(): Promise<ScalarCharts> {
    const dir = await this.summaryDir();
    if (dir === null) {
      const { summaryDir } = await this.status();
      return { runs: [], message: `The summaries are not with the history, but in ${summaryDir}: tony-ts tensorboard shows them.` };
    }
    if (this.#scalars?.dir !== dir) {
      this.#scalars?.reader.close();
      this.#scalars = { dir, reader: new ScalarReader({ storage: this.#options.store.storage, dir, log: this.#options.log }) };
    }
    return this.#scalars.reader.charts();
  }

  /** URI of the folder of the summaries; null when it is not for this reader to look there. */
  async summaryDir(): Promise<string | null> {
    const { folder } = this.#options.place;
    const { summaryDir } = await this.status();
    if (summaryDir === '') return joinUri(folder, 'summaries');
    const clean = !summaryDir.split('/').some((part) => part === '.' || part === '..');
    const inside = clean && summaryDir.startsWith(`${folder.replace(/\/+$/, '')}/`);
    const ownKind = summaryDir.split(':', 1)[0] === folder.split(':', 1)[0];
    return inside || (this.#options.anywhere && clean && ownKind) ? summaryDir : null;
  }

  async log(task: string, file: LogFile, tail: number): Promise<LogTail | null> {
    const { store, place } = this.#options;
    const { record, status } = await this.#load();
    const containerId = await this.#containerOf(task, record, status);
    if (containerId === null) return null;
    const piece = await store.log(place, containerId, file, tail);
    if (piece === null) {
      const why = status.finishedAt === null ? 'are collected when the job has ended' : 'are gone, or not collected yet';
      throw new TonyError('LOGS_UNAVAILABLE', `There is no ${file} of ${task}: its logs ${why}.`);
    }
    return { text: Buffer.from(piece.bytes).toString('utf8'), skipped: piece.end - piece.bytes.length };
  }

  close(): void {
    this.#scalars?.reader.close();
  }

  async #containerOf(task: string, record: JobRecord, status: JobStatus): Promise<string | null> {
    if (task === 'master') return (await this.#options.store.masters(this.#options.place, record.entries)).at(-1) ?? null;
    const containers = orderContainers(status, record.entries);
    const found = task.startsWith('container_')
      ? containers.find(({ containerId }) => containerId === task)
      : containers.findLast((each) => each.task === task);
    return found?.containerId ?? null;
  }

  /** What is final stays; the rest is looked at again after a moment. */
  async #load(): Promise<Loaded> {
    const known = this.#loaded;
    if (known !== null && (known.record.final !== '' || performance.now() - known.at < FRESH_MS)) return known;
    this.#loading ??= this.#read().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #read(): Promise<Loaded> {
    const { store, place, live } = this.#options;
    const at = performance.now();
    const record = await readRecord(store.storage, place, true);
    const answer = record.final === '' ? (await store.answers([place.applicationId])).get(place.applicationId) : undefined;
    const runs = typeof answer === 'object' && answer.result === null;
    const said = runs ? await live?.() : null;
    this.#loaded = { record, status: said ?? storedStatus(record, answer ?? 'forgotten'), at };
    return this.#loaded;
  }
}

/** Evenly fewer of them, the newest among them, so that there are at most so many values of single tasks. */
export function thinned(samples: readonly UsageSample[], most: number): readonly UsageSample[] {
  const values = samples.reduce((sum, { tasks }) => sum + tasks.length, 0);
  if (values <= most) return samples;
  const every = Math.ceil(values / most);
  return samples.filter((_, at) => (samples.length - 1 - at) % every === 0);
}
