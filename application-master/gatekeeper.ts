import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../conf/errors.ts';
import { APPLICATION_TYPE, type FrozenJob } from '../conf/job.ts';
import type { Logger } from '../conf/log.ts';
import { setsTotals } from '../conf/quotas.ts';
import type { HadoopConfiguration } from '../hadoop/configuration.ts';
import { GroupMemory } from '../hadoop/group-memory.ts';
import { configurationOfNode } from '../hadoop/node-configuration.ts';
import { ResourceManager } from '../hadoop/resource-manager.ts';
import { type Application, LIVE_STATES } from '../hadoop/resource-manager-answers.ts';
import { submittedBefore } from '../hadoop/submission-order.ts';
import { groupsOfUser } from '../hadoop/user-groups.ts';
import { siteOfCluster } from '../storage/cluster-site.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { type ClusterView, type Judgement, type judge, limitsFor } from './admission.ts';
import type { JobLimits } from './events.ts';
import type { MasterSettings } from './settings.ts';

/** Between two looks at what others have (ms). */
const LOOK_EVERY_MS = 2_000;
/** And at the site file while the job runs (ms). */
const WATCH_EVERY_MS = 30_000;
/** For the node to say by which configuration it finds the cluster (ms). */
const NODE_MS = 5_000;

/** All but what the ResourceManager says at registration. */
type Sight = Omit<ClusterView, 'queue'>;

export interface GatekeeperOptions {
  readonly frozen: FrozenJob;
  /** The job's own, by which the cluster is found where the node does not say how. */
  readonly configuration: HadoopConfiguration;
  readonly host: string;
  readonly node: MasterSettings['node'];
  readonly log: Logger;
}

/** What is asked, at the addresses that count. */
interface Sources {
  readonly configuration: HadoopConfiguration;
  readonly resourceManager: ResourceManager;
  readonly storage: Storage;
  readonly groups: GroupMemory;
}

/** Lets a job begin when the cluster's site file and what else runs allow it, by what the cluster itself says of both. */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;
  /** By the node's configuration once it has said it. */
  #sources: Sources | null = null;
  /** What the NameNode says that the job's own configuration names; not believed any more when the node has named it. */
  readonly #groupsByOwn: GroupMemory;
  readonly #closing = new AbortController();
  /** What has been looked at and serves once more: begun while the ApplicationMaster registers, where nothing is limited nobody waits for it. */
  #seen: Promise<Sight> | null;

  constructor(options: GatekeeperOptions) {
    this.#options = options;
    this.#groupsByOwn = groupMemory(options.configuration, options.node.user);
    this.#seen = this.#look();
    this.#seen.catch(() => {});
  }

  /**
   * Looks again and again until the job is admitted or refused; while the cluster cannot be asked the job waits as well.
   *
   * @param judgeJob see `judgeOf`.
   * @param queue of the job, as the ResourceManager has put it.
   * @param onWaiting told each time that the reason is another one.
   * @returns null when it is closed before.
   */
  async decide(
    judgeJob: typeof judge,
    queue: string,
    onWaiting: (reason: string) => void,
  ): Promise<Exclude<Judgement, { type: 'waits' }> | null> {
    const { frozen, log } = this.#options;
    let told = '';
    while (!this.#closing.signal.aborted) {
      const looking = this.#take();
      const judgement = await looking.then(
        (seen) => judgeJob(frozen, viewOf(seen, queue)),
        (error: unknown): Judgement => ({
          type: 'waits',
          reason: `Waits to learn what the site file of the cluster allows: ${messageOf(error)}`,
        }),
      );
      if (judgement.type !== 'waits') {
        // What the job was admitted by is what it is held to at first.
        this.#seen = looking;
        return judgement;
      }
      if (judgement.reason !== told) {
        told = judgement.reason;
        log.info(told);
        onWaiting(told);
      }
      await delay(LOOK_EVERY_MS, undefined, { signal: this.#closing.signal }).catch(() => undefined);
    }
    return null;
  }

  /** Tells what the site file allows the running job, now and again; while the cluster cannot be asked, what was told last holds. */
  async watch(queue: string, onLimits: (limits: JobLimits) => void): Promise<void> {
    const { frozen, log } = this.#options;
    while (!this.#closing.signal.aborted) {
      await this.#take().then(
        (seen) => onLimits(limitsFor(frozen, viewOf(seen, queue))),
        (error: unknown) => log.warn({ error: messageOf(error) }, 'the site file of the cluster was not read again'),
      );
      await delay(WATCH_EVERY_MS, undefined, { signal: this.#closing.signal }).catch(() => undefined);
    }
  }

  #take(): Promise<Sight> {
    const seen = this.#seen ?? this.#look();
    this.#seen = null;
    return seen;
  }

  async #look(): Promise<Sight> {
    const { applicationId, user } = this.#options.node;
    const sources = this.#sources ?? (await this.#open());
    try {
      const { configuration, resourceManager, storage, groups: memory } = sources;
      const site = await siteOfCluster(storage, configuration.defaultFs);
      const { applications, earlier } = setsTotals(site.quotas)
        ? await othersOf(applicationId, resourceManager)
        : { applications: [], earlier: new Set<string>() };
      const hasGroups = Object.keys(site.quotas.groups).length > 0;
      const groups = await memory.of(hasGroups ? [user, ...applications.map((application) => application.user)] : []);
      return { applicationId, user, site, applications, earlier, groupsOf: (each) => groups.get(each) ?? [] };
    } finally {
      if (sources !== this.#sources) closeSources(sources);
    }
  }

  /** A job's own configuration may have been written by hand, so that it leads to another site file: what the node goes by counts. */
  async #open(): Promise<Sources> {
    const { frozen, configuration: own, host, node, log } = this.#options;
    const frozenProperties = frozen.cluster.kind === 'yarn' ? frozen.cluster.hadoop : {};
    const said = await configurationOfNode({ host, port: node.httpPort }, frozenProperties, NODE_MS);
    const configuration = said ?? own;
    const { defaultFs } = configuration;
    const sources = {
      configuration,
      resourceManager: ResourceManager.of(configuration, node.user),
      storage: createStorage({ hadoop: configuration, user: node.user }),
      groups: said === null ? this.#groupsByOwn : groupMemory(said, node.user),
    };
    if (said === null) {
      log.warn(
        { node: `${host}:${node.httpPort}`, defaultFs },
        "the node does not say its configuration: the site file is looked for by the job's own",
      );
      return sources;
    }
    if (defaultFs !== own.defaultFs) log.warn({ node: defaultFs, job: own.defaultFs }, 'the job names another file system than its node');
    if (!this.#closing.signal.aborted) this.#sources = sources;
    return sources;
  }

  close(): void {
    this.#closing.abort();
    if (this.#sources !== null) closeSources(this.#sources);
    this.#sources = null;
  }
}

function groupMemory(configuration: HadoopConfiguration, caller: string): GroupMemory {
  return new GroupMemory((user) => groupsOfUser(configuration, caller, user));
}

async function othersOf(applicationId: string, resourceManager: ResourceManager): Promise<Pick<Sight, 'applications' | 'earlier'>> {
  const filter = { types: [APPLICATION_TYPE], states: LIVE_STATES };
  const applications: readonly Application[] = await resourceManager.applications(filter);
  const own = applications.find(({ id }) => id === applicationId);
  const earlier = own === undefined ? new Set<string>() : await submittedBefore(own, applications, resourceManager, filter);
  return { applications, earlier };
}

/** Users may move their applications to another queue after they were registered. */
function viewOf(sight: Sight, registeredQueue: string): ClusterView {
  const own = sight.applications.find(({ id }) => id === sight.applicationId);
  return { ...sight, queue: own?.queue || registeredQueue };
}

function closeSources({ resourceManager, storage }: Sources): void {
  resourceManager.close();
  storage.close();
}
