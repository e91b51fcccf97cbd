import type { KeepingSite } from '../../conf/resolve/site.ts';
import type { HistoryEntry } from '../../conf/status/status.ts';
import { isNamedFileSystem } from '../../hadoop/configuration/file-systems/named-servers.ts';
import { ContainerLogs } from '../../hadoop/logs/container-logs.ts';
import { applicationOf, formatContainerId, isApplicationId, parseContainerId } from '../../hadoop/rpc/application-id.ts';
import { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';
import { TonyError } from '../../platform/errors.ts';
import { ifCode } from '../../platform/if-code.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { isAway } from '../cluster/outage-tolerance.ts';
import { resultOf } from '../cluster/yarn-diagnostics.ts';
import { isUserName, ownHistoryFolders, sharedFolder } from './history-place.ts';
import type { HistoryStore } from './history-store.ts';
import type { Found, JobPlace } from './job-place.ts';
import type { LogPiece } from './log-piece.ts';
import type { ClusterAnswer } from './stored-status.ts';

const ENDED: ReadonlySet<string> = new Set(['FINISHED', 'FAILED', 'KILLED']);
/** Maximum number of applications to request individually. For more applications, a single cached request for all of them is cheaper. */
const FEW = 3;
const ANSWER_LIFE_MS = 5_000;
/**
 * Maximum number of names to read from the shared folder, and from each user's folder. Users can create any number of entries in these
 * folders.
 */
const MOST_USERS = 50_000;
const MOST_HISTORIES = 20_000;

/** Reads job histories from HDFS, and asks the ResourceManager for the state of jobs without a final status. */
export class ClusterHistory implements HistoryStore {
  readonly storage: Storage;
  readonly user: string;
  readonly root: string;
  readonly #cluster: HadoopCluster;
  readonly #site: KeepingSite;
  readonly #ownsCluster: boolean;
  readonly #resourceManager: ResourceManager;
  readonly #logs: ContainerLogs;
  #applications: { readonly at: number; readonly known: Promise<ReadonlyMap<string, Application>> } | null = null;

  private constructor(cluster: HadoopCluster, site: KeepingSite, ownsCluster: boolean) {
    this.#ownsCluster = ownsCluster;
    this.storage = cluster.storage;
    this.user = cluster.user;
    this.root = cluster.root;
    this.#cluster = cluster;
    this.#site = site;
    this.#resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
    this.#logs = new ContainerLogs({ configuration: cluster.configuration, user: cluster.user });
  }

  /**
   * Opens a cluster's histories. If `ownsCluster` is true, `close` also closes the cluster.
   * @throws TonyError SITE_INVALID, SITE_UNREADABLE, HDFS_UNREACHABLE
   */
  static async open(cluster: HadoopCluster, { ownsCluster = true } = {}): Promise<ClusterHistory> {
    return new ClusterHistory(cluster, await cluster.keepingSite(), ownsCluster);
  }

  mayRead(place: JobPlace, uri: string): boolean {
    return place.user === this.user || isNamedFileSystem(this.#cluster.configuration, uri);
  }

  get cacheMaxAgeMs(): number | null {
    return this.#site.cache.maxAgeMs;
  }

  get keepMs(): number {
    return this.#site.history.keepMs;
  }

  get limits(): string {
    return sharedFolder(this.#site, this.#cluster.home) === null
      ? "Other users' histories are in their home folders. An admin can set history.dir in tony-site.yaml to use one folder for all users."
      : '';
  }

  async users(): Promise<Found<string>> {
    const shared = sharedFolder(this.#site, this.#cluster.home);
    const folders = shared === null ? [] : await this.storage.list(shared, { most: MOST_USERS });
    // Trust a user's folder only if the user owns the folder, because any user can create folders in the shared folder.
    const owners = folders.filter(({ type, name, owner }) => type === 'folder' && owner === name).map(({ name }) => name);
    const message = folders.length < MOST_USERS ? '' : `Users may be missing: ${shared} has more than ${MOST_USERS} entries.`;
    return { found: [...new Set([...owners, this.user])], message };
  }

  async places(user: string): Promise<Found<JobPlace>> {
    if (!isUserName(user)) {
      return { found: [], message: '' };
    }
    const shared = sharedFolder(this.#site, this.#cluster.home);
    const parents = [
      ...(shared !== null && (await this.storage.stat(joinUri(shared, user)))?.owner === user ? [joinUri(shared, user)] : []),
      ...(user === this.user ? [joinUri(this.#cluster.root, 'history')] : []),
    ];
    const lists = await Promise.all(parents.map((parent) => this.storage.list(parent, { most: MOST_HISTORIES })));
    const found = new Map<string, JobPlace>();
    for (const { name, type, owner, uri } of lists.flat()) {
      if (type !== 'folder' || owner !== user || !isApplicationId(name) || found.has(name)) {
        continue;
      }
      found.set(name, { jobId: name, user, folder: uri });
    }
    const full = parents.filter((_, at) => (lists[at]?.length ?? 0) >= MOST_HISTORIES);
    // HDFS lists names in ascending order, so the newest jobs are missing from an incomplete list.
    const message = full
      .map((parent) => `The newest histories may be missing: ${parent} has more than ${MOST_HISTORIES} entries.`)
      .join(' ');
    return { found: [...found.values()], message };
  }

  async place(user: string, jobId: string): Promise<JobPlace | null> {
    if (!isApplicationId(jobId) || !isUserName(user)) {
      return null;
    }
    for (const folder of await ownHistoryFolders(this.storage, this.#site, this.#cluster, { user, jobId })) {
      const entry = await this.storage.stat(folder);
      if (entry?.type === 'folder' && entry.owner === user) {
        return { jobId, user, folder };
      }
    }
    return null;
  }

  async answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>> {
    if (places.length === 0) {
      return new Map();
    }
    try {
      if (places.length > FEW) {
        const known = await this.#allApplications();
        return new Map(places.map((place) => [place.folder, answerFor(place, known.get(place.jobId))]));
      }
      const asked = places.map(async (place) => [place.folder, answerFor(place, await this.#application(place.jobId))] as const);
      return new Map(await Promise.all(asked));
    } catch (error) {
      if (isAway(error)) {
        return new Map(places.map(({ folder }) => [folder, 'silent']));
      }
      throw error;
    }
  }

  async masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]> {
    try {
      const application = await this.#application(place.jobId);
      if (application?.user !== place.user) {
        return inferredMasters(entries);
      }
      const attempts = await this.#resourceManager.attempts(place.jobId);
      return attempts.flatMap(({ containerId }) => containerId ?? []);
    } catch (error) {
      if (!(error instanceof TonyError)) {
        throw error;
      }
      return inferredMasters(entries);
    }
  }

  async log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null> {
    // Reject container IDs from other applications, because the job's owner can edit the file that contains the IDs.
    if (!belongsTo(containerId, place.jobId)) {
      return null;
    }
    // Ignore the node address in the history, because a forged address could direct this server's requests to any machine.
    const piece = await this.#logs.read({ containerId, nodeHttp: null, owner: place.user }, file, { tail });
    return piece && { bytes: piece.bytes, end: piece.offset + piece.bytes.length };
  }

  close(): void {
    this.#logs.close();
    this.#resourceManager.close();
    if (this.#ownsCluster) {
      this.#cluster.close();
    }
  }

  #allApplications(): Promise<ReadonlyMap<string, Application>> {
    if (this.#applications !== null && performance.now() - this.#applications.at < ANSWER_LIFE_MS) {
      return this.#applications.known;
    }
    const asked = this.#resourceManager.applications({ types: ['TONY'] });
    const known = asked.then((all) => new Map(all.map((each) => [each.id, each])));
    const applications = { at: performance.now(), known };
    known.catch(() => {
      if (this.#applications === applications) {
        this.#applications = null;
      }
    });
    this.#applications = applications;
    return known;
  }

  async #application(id: string): Promise<Application | undefined> {
    return this.#resourceManager.application(id).catch(ifCode('JOB_NOT_FOUND', undefined));
  }
}

/**
 * Returns YARN's report only if the history folder's owner submitted the application. This server may be able to read other users'
 * applications, and must not disclose them.
 */
function answerFor(place: JobPlace, application: Application | undefined): ClusterAnswer {
  if (application === undefined || application.user !== place.user) {
    return 'forgotten';
  }
  const { name, queue, startedAt, finishedAt, state } = application;
  return { name, queue, startedAt, finishedAt, result: ENDED.has(state) ? resultOf(application) : null };
}

function belongsTo(containerId: string, jobId: string): boolean {
  try {
    return applicationOf(containerId) === jobId;
  } catch {
    return false;
  }
}

/**
 * Derives the ApplicationMaster's container IDs from the tasks' container IDs. Within one attempt, container IDs differ only in the last
 * number, which is 1 for the ApplicationMaster.
 */
export function inferredMasters(entries: readonly HistoryEntry[]): string[] {
  const first = new Map<number, string>();
  for (const { containerId } of entries) {
    if (containerId === undefined) {
      continue;
    }
    try {
      const id = parseContainerId(containerId);
      if (!first.has(id.attempt)) {
        first.set(id.attempt, formatContainerId({ ...id, sequence: 1 }));
      }
    } catch {
      // Ignore text that is not a YARN container ID.
    }
  }
  return [...first.entries()].toSorted(([a], [b]) => a - b).map(([, containerId]) => containerId);
}
