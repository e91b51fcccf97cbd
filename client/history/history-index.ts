import type { JobState, JobStatus } from '../../conf/status/status.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { byAge, type HistoryStore } from '../records/history-store.ts';
import { listed, type OutlineFiles, outlineFiles, type ReadOutline, readOutline } from '../records/job-outline.ts';
import type { JobPlace } from '../records/job-place.ts';
import { type ClusterAnswer, outlineStatus } from '../records/stored-status.ts';
import { ListBudget, type ListLimits } from './list-budget.ts';

const AT_ONCE = 16;
const REMEMBERED = 2_000;
/** Limits for one job list. They are large enough for several thousand typical jobs. The list omits jobs beyond the limits. */
const LIMITS: ListLimits = { userBytes: 128 << 20, userMs: 10_000, ms: 30_000 };
/** Number of bytes to charge for listing one job folder. */
const FOLDER_BYTES = 4 << 10;
/** Time limit (ms) for reading one job's files. */
const JOB_MS = 10_000;
const MOST_MESSAGES = 3;
/** Maximum fraction of a list of all users that one user's jobs fill while jobs of other users are left. */
const LARGEST_SHARE = 0.5;

export interface HistoryQuery {
  /** User whose jobs to list, or null for all users. */
  readonly user: string | null;
  readonly state?: JobState | undefined;
  /** Text that the job name must contain. The comparison ignores case. */
  readonly name?: string | undefined;
  readonly limit: number;
  /** Returns true if the visitor may view the job. Called only for jobs that match the other criteria. */
  readonly mayView?: ((place: JobPlace) => Promise<boolean>) | undefined;
}

const QUERY_OPTIONS: OptionNames<HistoryQuery> = { user: true, state: true, name: true, limit: true, mayView: true };

export interface HistoryJob {
  readonly place: JobPlace;
  readonly status: JobStatus;
}

export interface HistoryListing {
  readonly jobs: readonly HistoryJob[];
  /** Reason why the list omits some jobs, or shows old states, or '' if it is complete. */
  readonly message: string;
}

interface Known {
  readonly found: ReadOutline['found'];
  /** Value of `OutlineFiles.stamp`. */
  readonly stamp: string;
}

interface Looked {
  readonly place: JobPlace;
  /** Contents of the job's files, or null if the job was omitted or cannot be read. */
  readonly found: Known['found'] | null;
  readonly bytes: number;
}

const SILENT = 'The cluster does not answer, so jobs without a recorded end are shown in the last state that they recorded.';

/** Lists jobs from their histories, newest first. Caches the jobs, and reads only the files that have changed. */
export class HistoryIndex {
  readonly #store: HistoryStore;
  readonly #limits: ListLimits;
  readonly #now: () => number;
  readonly #known = new Map<string, Known>();

  constructor(store: HistoryStore, options: { readonly limits?: ListLimits; readonly now?: () => number } = {}) {
    this.#store = store;
    this.#limits = options.limits ?? LIMITS;
    this.#now = options.now ?? (() => performance.now());
  }

  /** @throws TonyError HDFS_UNREACHABLE */
  async list(query: HistoryQuery): Promise<HistoryListing> {
    checkOptions('HistoryIndex.list', query, QUERY_OPTIONS);
    const budget = new ListBudget(this.#limits, this.#now);
    const general: string[] = [];
    const messages: string[] = [];
    if (query.user === null && this.#store.limits !== '') {
      general.push(this.#store.limits);
    }
    const users = query.user === null ? await this.#store.users() : { found: [query.user], message: '' };
    if (users.message !== '') {
      general.push(users.message);
    }
    const places = await this.#places(users.found, messages);
    const jobs: HistoryJob[] = [];
    // Users choose the names of their folders, and can therefore make their jobs look newer than those of all other users.
    const share = query.user === null ? Math.ceil(query.limit * LARGEST_SHARE) : query.limit;
    const postponed = await this.#collect(jobs, places, { query, share, budget, messages });
    await this.#collect(jobs, postponed, { query, share: query.limit, budget, messages });
    jobs.sort((a, b) => byAge(a.place, b.place));
    if (budget.message !== '') {
      general.push(budget.message);
    }
    return { jobs, message: [...general, ...messages.slice(0, MOST_MESSAGES)].join(' ') };
  }

  /** Adds jobs to the list until it is full. Returns the places of users who already have their share of the list. */
  async #collect(
    jobs: HistoryJob[],
    places: readonly JobPlace[],
    { query, share, budget, messages }: { query: HistoryQuery; share: number; budget: ListBudget; messages: string[] },
  ): Promise<JobPlace[]> {
    const counts = new Map<string, number>();
    const postponed: JobPlace[] = [];
    const hasShare = ({ user }: JobPlace): boolean => (counts.get(user) ?? 0) >= share;
    for (let at = 0; at < places.length && jobs.length < query.limit; ) {
      const batch: JobPlace[] = [];
      for (; at < places.length && batch.length < AT_ONCE; at++) {
        const place = places[at] as JobPlace;
        (hasShare(place) ? postponed : batch).push(place);
      }
      for (const job of await this.#statuses(batch, budget, messages)) {
        if (hasShare(job.place)) {
          postponed.push(job.place);
        } else if (jobs.length < query.limit && matches(job, query) && (await this.#mayView(job.place, query, budget))) {
          jobs.push(job);
          counts.set(job.place.user, (counts.get(job.place.user) ?? 0) + 1);
        }
      }
    }
    return postponed;
  }

  async #places(users: readonly string[], messages: string[]): Promise<JobPlace[]> {
    const places: JobPlace[] = [];
    for (let at = 0; at < users.length; at += AT_ONCE) {
      const asked = users.slice(at, at + AT_ONCE).map(async (user) => {
        try {
          return await this.#store.places(user);
        } catch (error) {
          return { found: [], message: passOver(error, `The histories of ${user} cannot be read`) };
        }
      });
      for (const { found, message } of await Promise.all(asked)) {
        for (const place of found) {
          places.push(place);
        }
        if (message !== '') {
          messages.push(message);
        }
      }
    }
    return places.sort(byAge);
  }

  async #statuses(places: readonly JobPlace[], budget: ListBudget, messages: string[]): Promise<HistoryJob[]> {
    const begun = this.#now();
    const looked = await Promise.all(places.map((place) => this.#look(place, budget, messages)));
    const open = looked.flatMap(({ place, found }) => (found !== null && 'open' in found ? [place] : []));
    const answers = await this.#store.answers(open);
    if (open.some(({ folder }) => answers.get(folder) === 'silent') && !messages.includes(SILENT)) {
      messages.push(SILENT);
    }
    budget.spend(
      this.#now() - begun,
      looked.map(({ place: { user }, bytes }) => ({ user, bytes })),
    );
    return looked.flatMap(({ place, found }) => (found === null ? [] : [{ place, status: statusOf(found, answers.get(place.folder)) }]));
  }

  async #look(place: JobPlace, budget: ListBudget, messages: string[]): Promise<Looked> {
    const { storage } = this.#store;
    const { user, folder, jobId } = place;
    const known = this.#known.get(folder);
    // A finished job's files do not change.
    if (known !== undefined && 'ended' in known.found) {
      return { place, found: known.found, bytes: 0 };
    }
    let bytes = 0;
    const take = (more: number): boolean => {
      if (!budget.take(user, more)) {
        budget.leaveOut(user);
        return false;
      }
      bytes += more;
      return true;
    };
    const what = `${jobId} of ${user} cannot be read`;
    if (!take(FOLDER_BYTES)) {
      return { place, found: null, bytes };
    }
    try {
      const files = await outlineFiles(storage, place);
      if (known?.stamp === files.stamp) {
        return { place, found: known.found, bytes };
      }
      if (!take(files.bytes)) {
        return { place, found: null, bytes };
      }
      const { found, bytes: read } = await this.#read(place, files);
      budget.takeMore(user, read - files.bytes);
      this.#remember(folder, { found, stamp: files.stamp });
      return { place, found, bytes: FOLDER_BYTES + read };
    } catch (error) {
      messages.push(passOver(error, what));
      return { place, found: null, bytes };
    }
  }

  /**
   * Reads one job. Reports all errors as STORAGE_DENIED, so that the list omits only this job. The storage has just answered another
   * request, so the cause must be this job's files.
   */
  async #read(place: JobPlace, files: OutlineFiles): Promise<ReadOutline> {
    try {
      return await withTimeout(readOutline(this.#store.storage, place, files), JOB_MS, () => {
        throw new Error(`no answer within ${JOB_MS / 1000} s`);
      });
    } catch (error) {
      throw new TonyError('STORAGE_DENIED', messageOf(error), { cause: error });
    }
  }

  async #mayView(place: JobPlace, { mayView }: HistoryQuery, budget: ListBudget): Promise<boolean> {
    if (mayView === undefined) {
      return true;
    }
    // The access check also reads files, so it counts against the time limits.
    if (budget.isOver(place.user)) {
      budget.leaveOut(place.user);
      return false;
    }
    const begun = this.#now();
    const may = await mayView(place);
    budget.spend(this.#now() - begun, [{ user: place.user, bytes: 1 }]);
    return may;
  }

  #remember(folder: string, known: Known): void {
    this.#known.delete(folder);
    for (const [oldest] of this.#known) {
      if (this.#known.size < REMEMBERED) {
        break;
      }
      this.#known.delete(oldest);
    }
    this.#known.set(folder, known);
  }
}

function statusOf(found: Known['found'], answer: ClusterAnswer | undefined): JobStatus {
  return 'ended' in found ? found.ended : listed(outlineStatus(found.open, answer ?? 'forgotten'));
}

function matches({ status }: HistoryJob, { state, name }: HistoryQuery): boolean {
  return (state === undefined || status.state === state) && (name === undefined || status.name.toLowerCase().includes(name.toLowerCase()));
}

/**
 * Returns the message for a job or folder that cannot be read. Throws the error again if the storage is unreachable, because the whole list
 * must then fail.
 */
function passOver(error: unknown, what: string): string {
  if (error instanceof TonyError && error.unreachable) {
    throw error;
  }
  return `${what}: ${messageOf(error)}`;
}
