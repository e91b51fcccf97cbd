import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DEFAULT_SITE } from '../../conf/site.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';
import { LocalJob } from '../connections/local-job.ts';
import { isLocalId, LOCAL_ATTEMPTS, localPaths } from '../files/local-layout.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { Found, JobPlace } from '../records/job-place.ts';
import type { LogPiece } from '../records/log-piece.ts';
import type { ClusterAnswer } from '../records/stored-status.ts';

/** Container IDs as YARN and the local negotiator assign them. */
const CONTAINER_ID = /^container_[\w]{1,100}$/;

/** Histories of local jobs. */
export class LocalHistory implements HistoryStore {
  readonly storage: Storage = new FileStorage();
  readonly user: string;
  readonly keepMs = DEFAULT_SITE.history.keepMs;
  readonly limits = '';
  readonly #folder: string;

  constructor(folder: string, user: string) {
    this.#folder = folder;
    this.user = user;
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
    return { found: folders.map(({ name, uri }) => ({ applicationId: name, user, folder: uri })), message: '' };
  }

  async place(user: string, applicationId: string): Promise<JobPlace | null> {
    if (user !== this.user || !isLocalId(applicationId)) {
      return null;
    }
    const folder = joinUri(this.root, 'history', applicationId);
    return (await this.storage.stat(folder)) === null ? null : { applicationId, user, folder };
  }

  async answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>> {
    const asked = places.map(async ({ applicationId: id, folder }): Promise<readonly [string, ClusterAnswer]> => {
      const observation = await new LocalJob(id, this.#folder).observe().catch(() => null);
      if (observation === null) {
        return [folder, 'forgotten'];
      }
      const { result, status } = observation;
      const about = { name: status?.name ?? '', queue: status?.queue ?? '', startedAt: status?.startedAt ?? startOf(id) };
      return [folder, { ...about, finishedAt: status?.finishedAt ?? null, result }];
    });
    return new Map(await Promise.all(asked));
  }

  async masters({ applicationId }: JobPlace): Promise<string[]> {
    const paths = localPaths(this.#folder, applicationId);
    const there = new Set(await readdir(paths.containers).catch(() => []));
    return Array.from({ length: LOCAL_ATTEMPTS }, (_, at) => paths.masterContainer(at + 1)).filter((id) => there.has(id));
  }

  async log({ applicationId }: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null> {
    if (!CONTAINER_ID.test(containerId) || !/^[\w.]+$/.test(file)) {
      return null;
    }
    const handle = await open(join(localPaths(this.#folder, applicationId).logs(containerId), file), 'r').catch(() => null);
    if (handle === null) {
      return null;
    }
    try {
      const { size } = await handle.stat();
      const start = Math.max(0, size - tail);
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(size - start), 0, null, start);
      return { bytes: buffer.subarray(0, bytesRead), end: start + bytesRead };
    } finally {
      await handle.close();
    }
  }

  close(): void {
    this.storage.close();
  }
}

/** Returns the submission time (ms since the epoch), which is part of the ID. */
function startOf(applicationId: string): number {
  return Number(/^local_(\d+)_/.exec(applicationId)?.[1] ?? 0);
}
