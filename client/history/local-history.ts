import { join } from 'node:path';
import { DEFAULT_SITE } from '../../conf/resolve/site.ts';
import { isEndState } from '../../conf/status/status.ts';
import { closing } from '../../platform/async/closing.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';
import { LocalJob, readPiece, startedMasters } from '../connections/local-job.ts';
import { isLocalId, localPaths } from '../files/local-layout.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { Found, JobPlace } from '../records/job-place.ts';
import type { LogPiece } from '../records/log-piece.ts';
import type { ClusterAnswer } from '../records/stored-status.ts';

const CONTAINER_ID = /^container_[\w]{1,100}$/;

export class LocalHistory implements HistoryStore {
  readonly storage: Storage = new FileStorage();
  readonly user: string;
  readonly keepMs = DEFAULT_SITE.history.keepMs;
  readonly cacheMaxAgeMs = DEFAULT_SITE.cache.maxAgeMs;
  readonly limits = '';
  readonly #folder: string;

  constructor(folder: string, user: string) {
    this.#folder = folder;
    this.user = user;
  }

  /** Local jobs are this user's own. */
  mayRead(): boolean {
    return true;
  }

  get root(): string {
    return fileUri(this.#folder);
  }

  async users(): Promise<Found<string>> {
    return { found: [this.user], message: '' };
  }

  async places(user: string): Promise<Found<JobPlace>> {
    if (user !== this.user) {
      return { found: [], message: '' };
    }
    const entries = await this.storage.list(joinUri(this.root, 'history'));
    const folders = entries.filter(({ name, type }) => type === 'folder' && isLocalId(name));
    return { found: folders.map(({ name, uri }) => ({ jobId: name, user, folder: uri })), message: '' };
  }

  async place(user: string, jobId: string): Promise<JobPlace | null> {
    if (user !== this.user || !isLocalId(jobId)) {
      return null;
    }
    const folder = joinUri(this.root, 'history', jobId);
    return (await this.storage.stat(folder)) === null ? null : { jobId, user, folder };
  }

  async answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>> {
    const asked = places.map(async ({ jobId: id, folder }): Promise<readonly [string, ClusterAnswer]> => {
      const job = await closing(new LocalJob(id, this.#folder), (connection) => connection.observe()).catch(() => null);
      if (job === null) {
        return [folder, 'forgotten'];
      }
      const { name, queue, createdAt, finishedAt, state, message } = job;
      const result = isEndState(state) ? { state, message } : null;
      return [folder, { name, queue, startedAt: createdAt ?? startOf(id), finishedAt, result }];
    });
    return new Map(await Promise.all(asked));
  }

  async masters({ jobId }: JobPlace): Promise<string[]> {
    return startedMasters(localPaths(this.#folder, jobId));
  }

  async log({ jobId }: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null> {
    if (!CONTAINER_ID.test(containerId) || !/^[\w.]+$/.test(file)) {
      return null;
    }
    return readPiece(join(localPaths(this.#folder, jobId).logs(containerId), file), { tail });
  }

  close(): void {
    this.storage.close();
  }
}

/** Returns the submission time from the ID, in ms since the epoch. */
function startOf(jobId: string): number {
  return Number(/^local_(\d+)_/.exec(jobId)?.[1] ?? 0);
}
