import { isReported, type ListedJob, listedJob } from '../../conf/status/job-info.ts';
import { isEndState } from '../../conf/status/status.ts';
import { hadoopUser } from '../../hadoop/configuration/configuration.ts';
import { closing } from '../../platform/async/closing.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { LocalJob } from '../connections/local-job.ts';
import { HistoryIndex, type HistoryJob } from '../history/history-index.ts';
import { LocalHistory } from '../history/local-history.ts';
import { storedJob } from '../history/stored-job.ts';
import { checkLocalRoot, localRoot } from '../staging/local-folder.ts';
import { type ListOptions, matchesListing } from './job-lister.ts';

const MOST_LOOKED_AT = 10_000;

export interface LocalListOptions extends Pick<ListOptions, 'ended' | 'name' | 'queue' | 'state' | 'limit'> {
  /** Folder for local jobs. Default: ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  readonly env?: NodeJS.ProcessEnv;
}

export const LOCAL_LIST_OPTIONS: OptionNames<LocalListOptions> = {
  ended: true,
  name: true,
  queue: true,
  state: true,
  limit: true,
  localRoot: true,
  env: true,
};

export class LocalLister {
  readonly #root: string;
  readonly #user: string;
  readonly #store: LocalHistory;
  readonly #index: HistoryIndex;

  constructor(options: Pick<LocalListOptions, 'localRoot' | 'env'> = {}) {
    this.#root = options.localRoot ?? localRoot(options.env);
    this.#user = hadoopUser(options.env);
    this.#store = new LocalHistory(this.#root, this.#user);
    this.#index = new HistoryIndex(this.#store);
  }

  async list(options: LocalListOptions): Promise<ListedJob[]> {
    await checkLocalRoot(this.#root);
    const { jobs } = await this.#index.list({ user: this.#user, limit: MOST_LOOKED_AT });
    const listed = await Promise.all(jobs.map((job) => this.#listed(job)));
    return listed.filter((each) => matchesListing(each, options)).slice(0, options.limit);
  }

  close(): void {
    this.#store.close();
  }

  async #listed(stored: HistoryJob): Promise<ListedJob> {
    if (isEndState(stored.status.state)) {
      return storedJob(stored);
    }
    // Query an unfinished job, because its history contains neither its step nor its metrics.
    const job = await closing(new LocalJob(stored.status.id, this.#root), (connection) => connection.observe());
    return isReported(job) ? listedJob(job) : storedJob(stored);
  }
}

export async function listLocalJobs(options: LocalListOptions = {}): Promise<ListedJob[]> {
  checkOptions('listLocalJobs', options, LOCAL_LIST_OPTIONS);
  return closing(new LocalLister(options), (lister) => lister.list(options));
}
