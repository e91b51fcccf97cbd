import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DEFAULT_SITE } from '../../conf/site.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';
import type { LogPiece } from '../job-connection.ts';
import { LocalJob } from '../local-job.ts';
import { isLocalId, LOCAL_ATTEMPTS, localPaths } from '../local-layout.ts';
import type { HistoryStore, JobPlace } from './history-store.ts';
import type { ClusterAnswer } from './stored-status.ts';

/** Names as YARN's and the local negotiator give them. */
const CONTAINER_ID = /^container_[\w]{1,100}$/;

/** Histories of this machine's jobs. */
export class LocalHistory implements HistoryStore {
  readonly storage: Storage = new FileStorage();
  readonly user: string;
  readonly keepMs = DEFAULT_SITE.history.keepMs;
  readonly limits = '';
  readonly #root: string;

  constructor(root: string, user: string) {
    this.#root = root;
    this.user = user;
  }

  async users(): Promise<string[]> {
    return [this.user];
  }

  async places(user: string): Promise<JobPlace[]> {
    if (user !== this.user) return [];
    const entries = await this.storage.list(fileUri(join(this.#root, 'history')));
    return entries
      .filter(({ name, type }) => type === 'folder' && isLocalId(name))
      .map(({ name, uri }) => ({ applicationId: name, user, folder: uri }));
  }

  async place(user: string, applicationId: string): Promise<JobPlace | null> {
    if (user !== this.user || !isLocalId(applicationId)) return null;
    const folder = joinUri(fileUri(join(this.#root, 'history')), applicationId);
    return (await this.storage.stat(folder)) === null ? null : { applicationId, user, folder };
  }

  async answers(applicationIds: readonly string[]): Promise<ReadonlyMap<string, ClusterAnswer>> {
    const asked = applicationIds.map(async (id): Promise<readonly [string, ClusterAnswer]> => {
      const observation = await new LocalJob(id, this.#root).observe().catch(() => null);
      if (observation === null) return [id, 'forgotten'];
      const { result, status } = observation;
      const about = { name: status?.name ?? '', queue: status?.queue ?? '', startedAt: status?.startedAt ?? startOf(id) };
      return [id, { ...about, finishedAt: status?.finishedAt ?? null, result }];
    });
    return new Map(await Promise.all(asked));
  }

  async masters({ applicationId }: JobPlace): Promise<string[]> {
    const paths = localPaths(this.#root, applicationId);
    const there = new Set(await readdir(paths.containers).catch(() => []));
    return Array.from({ length: LOCAL_ATTEMPTS }, (_, at) => paths.masterContainer(at + 1)).filter((id) => there.has(id));
  }

  async log({ applicationId }: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null> {
    if (!CONTAINER_ID.test(containerId) || !/^[\w.]+$/.test(file)) return null;
    const handle = await open(join(localPaths(this.#root, applicationId).logs(containerId), file), 'r').catch(() => null);
    if (handle === null) return null;
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

/** An id holds when the job was submitted. */
function startOf(applicationId: string): number {
  return Number(/^local_(\d+)_/.exec(applicationId)?.[1] ?? 0);
}
