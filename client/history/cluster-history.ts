import { TonyError } from '../../conf/errors.ts';
import type { Site } from '../../conf/site.ts';
import type { HistoryEntry } from '../../conf/status.ts';
import { applicationOf, formatContainerId, isApplicationId, parseContainerId } from '../../hadoop/application-id.ts';
import { ContainerLogs } from '../../hadoop/container-logs.ts';
import { ResourceManager } from '../../hadoop/resource-manager.ts';
import type { Application } from '../../hadoop/resource-manager-answers.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { Cluster } from '../cluster.ts';
import type { LogPiece } from '../job-connection.ts';
import { resultOf } from '../yarn-diagnostics.ts';
import { historyFolders, sharedFolder } from './history-place.ts';
import type { HistoryStore, JobPlace } from './history-store.ts';
import type { ClusterAnswer } from './stored-status.ts';

const ENDED: ReadonlySet<string> = new Set(['FINISHED', 'FAILED', 'KILLED']);
/** Beyond so many questions one for all applications is cheaper. */
const FEW = 3;

/** Histories on HDFS, and what the ResourceManager still knows. */
export class ClusterHistory implements HistoryStore {
  readonly storage: Storage;
  readonly user: string;
  readonly #cluster: Cluster;
  readonly #site: Site;
  readonly #resourceManager: ResourceManager;
  readonly #logs: ContainerLogs;

  private constructor(cluster: Cluster, site: Site) {
    this.storage = cluster.storage;
    this.user = cluster.user;
    this.#cluster = cluster;
    this.#site = site;
    this.#resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
    this.#logs = new ContainerLogs({ configuration: cluster.configuration, user: cluster.user });
  }

  /** The cluster is closed with it. @throws TonyError SITE_INVALID, SITE_UNREADABLE, HDFS_UNREACHABLE */
  static async open(cluster: Cluster): Promise<ClusterHistory> {
    return new ClusterHistory(cluster, await cluster.site());
  }

  get keepMs(): number {
    return this.#site.history.keepMs;
  }

  get limits(): string {
    return sharedFolder(this.#site, this.#cluster.home) === null
      ? "Other users' histories lie in their own homes: a folder for all is named by history.dir of tony-site.yaml."
      : '';
  }

  async users(): Promise<string[]> {
    const shared = sharedFolder(this.#site, this.#cluster.home);
    const folders = shared === null ? [] : await this.storage.list(shared);
    // Anybody may make folders there; one that bears another's name says nothing of that person's jobs.
    const owners = folders.filter(({ type, name, owner }) => type === 'folder' && owner === name).map(({ name }) => name);
    return [...new Set([...owners, this.user])];
  }

  async places(user: string): Promise<JobPlace[]> {
    const shared = sharedFolder(this.#site, this.#cluster.home);
    const parents = [
      ...(shared === null ? [] : [joinUri(shared, user)]),
      ...(user === this.user ? [joinUri(this.#cluster.root, 'history')] : []),
    ];
    const lists = await Promise.all(parents.map((parent) => this.storage.list(parent)));
    const found = new Map<string, JobPlace>();
    for (const { name, type, owner, uri } of lists.flat()) {
      if (type !== 'folder' || owner !== user || !isApplicationId(name) || found.has(name)) continue;
      found.set(name, { applicationId: name, user, folder: uri });
    }
    return [...found.values()];
  }

  async place(user: string, applicationId: string): Promise<JobPlace | null> {
    if (!isApplicationId(applicationId) || user === '' || user.includes('/') || /^\.\.?$/.test(user)) return null;
    for (const folder of historyFolders(this.#site, this.#cluster, { user, applicationId })) {
      const entry = await this.storage.stat(folder);
      if (entry?.type === 'folder' && entry.owner === user) return { applicationId, user, folder };
    }
    return null;
  }

  async answers(applicationIds: readonly string[]): Promise<ReadonlyMap<string, ClusterAnswer>> {
    if (applicationIds.length === 0) return new Map();
    try {
      if (applicationIds.length > FEW) {
        const known = new Map((await this.#resourceManager.applications({ types: ['TONY'] })).map((each) => [each.id, each]));
        return new Map(
          applicationIds.map((id) => {
            const application = known.get(id);
            return [id, application === undefined ? 'forgotten' : wordOf(application)];
          }),
        );
      }
      const asked = applicationIds.map(async (id) => [id, await this.#ask(id)] as const);
      return new Map(await Promise.all(asked));
    } catch (error) {
      if (error instanceof TonyError && error.exitCode === 3) return new Map(applicationIds.map((id) => [id, 'silent']));
      throw error;
    }
  }

  async masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]> {
    try {
      const attempts = await this.#resourceManager.attempts(place.applicationId);
      return attempts.flatMap(({ containerId }) => containerId ?? []);
    } catch (error) {
      if (!(error instanceof TonyError)) throw error;
      return mastersBeside(entries);
    }
  }

  async log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null> {
    // The ids come from files that the job has written: they lead to no other application's logs.
    if (!belongsTo(containerId, place.applicationId)) return null;
    // What a history says of nodes' addresses is not to be trusted: nobody is to make us ask a machine of their choice.
    const piece = await this.#logs.read({ containerId, nodeHttp: null, owner: place.user }, file, { tail });
    return piece && { bytes: piece.bytes, end: piece.offset + piece.bytes.length };
  }

  close(): void {
    this.#logs.close();
    this.#resourceManager.close();
    this.#cluster.close();
  }

  async #ask(id: string): Promise<ClusterAnswer> {
    try {
      return wordOf(await this.#resourceManager.application(id));
    } catch (error) {
      if (error instanceof TonyError && error.code === 'APPLICATION_NOT_FOUND') return 'forgotten';
      throw error;
    }
  }
}

function wordOf(application: Application): ClusterAnswer {
  const { name, queue, startedAt, finishedAt, state } = application;
  return { name, queue, startedAt, finishedAt, result: ENDED.has(state) ? resultOf(application) : null };
}

function belongsTo(containerId: string, applicationId: string): boolean {
  try {
    return applicationOf(containerId) === applicationId;
  } catch {
    return false;
  }
}

/** YARN gives an attempt's first container to the ApplicationMaster; its id differs from the others in the numbers at the end. */
export function mastersBeside(entries: readonly HistoryEntry[]): string[] {
  const first = new Map<number, string>();
  for (const { containerId } of entries) {
    if (containerId === undefined) continue;
    try {
      const id = parseContainerId(containerId);
      if (!first.has(id.attempt)) first.set(id.attempt, formatContainerId({ ...id, sequence: 1 }));
    } catch {
      // Written by no YARN.
    }
  }
  return [...first.entries()].toSorted(([a], [b]) => a - b).map(([, containerId]) => containerId);
}
