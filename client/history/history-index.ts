import { messageOf, TonyError } from '../../conf/errors.ts';
import type { JobStatus } from '../../conf/status.ts';
import { byAge, type HistoryStore, type JobPlace } from './history-store.ts';
import { readRecord } from './job-record.ts';
import { type JobRecord, parseFinal, storedStatus } from './stored-status.ts';

const AT_ONCE = 16;
/** Of jobs that have ended, which change no more. */
const REMEMBERED = 2_000;

export interface HistoryQuery {
  /** Null: of all users. */
  readonly user: string | null;
  readonly state?: JobStatus['state'] | undefined;
  /** A part of the job's name, whatever its case. */
  readonly name?: string | undefined;
  readonly limit: number;
  /** Whether the asker may see the job; asked of those only that match. */
  readonly mayView?: ((place: JobPlace) => Promise<boolean>) | undefined;
}

export interface ListedJob {
  readonly place: JobPlace;
  readonly status: JobStatus;
}

export interface HistoryListing {
  readonly jobs: readonly ListedJob[];
  /** Why some are missing; empty when nothing is to be said. */
  readonly message: string;
}

/** Finds jobs in their histories, the newest first, and reads no more of them than needed. */
export class HistoryIndex {
  readonly #store: HistoryStore;
  /** By folder. */
  readonly #ended = new Map<string, JobStatus>();

  constructor(store: HistoryStore) {
    this.#store = store;
  }

  /** @throws TonyError HDFS_UNREACHABLE */
  async list(query: HistoryQuery): Promise<HistoryListing> {
    const messages: string[] = [];
    if (query.user === null && this.#store.limits !== '') messages.push(this.#store.limits);
    const users = query.user === null ? await this.#store.users() : [query.user];
    const places: JobPlace[] = [];
    for (const user of users) {
      try {
        places.push(...(await this.#store.places(user)));
      } catch (error) {
        messages.push(passOver(error, `The histories of ${user} cannot be read`));
      }
    }
    places.sort(byAge);
    const jobs: ListedJob[] = [];
    for (let at = 0; at < places.length && jobs.length < query.limit; at += AT_ONCE) {
      const read = await this.#statuses(places.slice(at, at + AT_ONCE), messages);
      for (const job of read) {
        if (jobs.length < query.limit && matches(job, query) && ((await query.mayView?.(job.place)) ?? true)) jobs.push(job);
      }
    }
    return { jobs, message: messages.slice(0, 3).join(' ') };
  }

  async #statuses(places: readonly JobPlace[], messages: string[]): Promise<ListedJob[]> {
    const records = await Promise.all(places.map((place) => this.#record(place, messages)));
    const open = records.flatMap((record) => (record !== null && 'final' in record && record.final === '' ? [record.applicationId] : []));
    const answers = await this.#store.answers(open);
    return records.flatMap((record, at): ListedJob[] => {
      const place = places[at];
      if (record === null || place === undefined) return [];
      if (!('entries' in record)) return [{ place, status: record }];
      return [{ place, status: storedStatus(record, answers.get(place.applicationId) ?? 'forgotten') }];
    });
  }

  async #record(place: JobPlace, messages: string[]): Promise<JobRecord | JobStatus | null> {
    const known = this.#ended.get(place.folder);
    if (known !== undefined) return known;
    try {
      const record = await readRecord(this.#store.storage, place, false);
      if (parseFinal(record.final, place.applicationId) === null) return record;
      const status = storedStatus(record, 'forgotten');
      this.#remember(place.folder, status);
      return status;
    } catch (error) {
      messages.push(passOver(error, `${place.applicationId} of ${place.user} cannot be read`));
      return null;
    }
  }

  #remember(folder: string, status: JobStatus): void {
    for (const [oldest] of this.#ended) {
      if (this.#ended.size < REMEMBERED) break;
      this.#ended.delete(oldest);
    }
    // A list shows no tasks, and there may be thousands.
    this.#ended.set(folder, { ...status, tasks: [] });
  }
}

function matches({ status }: ListedJob, { state, name }: HistoryQuery): boolean {
  return (state === undefined || status.state === state) && (name === undefined || status.name.toLowerCase().includes(name.toLowerCase()));
}

/** One job that is not to be read hides no other; storage that is away hides them all. */
function passOver(error: unknown, what: string): string {
  if (error instanceof TonyError && error.exitCode === 3) throw error;
  return `${what}: ${messageOf(error)}`;
}
