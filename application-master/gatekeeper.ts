import { APPLICATION_TYPE, type FrozenJob, type Job } from '../conf/job.ts';
import { describeExcess, excessesOf, neededContainers } from '../conf/queue-maximum.ts';
import { queueName, setsTotals } from '../conf/quotas.ts';
import type { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { containerLogin } from '../hadoop/configuration/login/login-of.ts';
import { groupsOfUser } from '../hadoop/configuration/login/user-groups.ts';
import { configurationOfNode } from '../hadoop/configuration/remote/node-configuration.ts';
import { provenConfiguration } from '../hadoop/configuration/remote/proven-configuration.ts';
import type { Token } from '../hadoop/rpc/credentials.ts';
import { GroupMemory } from '../hadoop/rpc/group-memory.ts';
import type { QueueRoom } from '../hadoop/yarn/queue-room.ts';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
import { type Application, LIVE_STATES } from '../hadoop/yarn/resource-manager-answers.ts';
import { submittedBefore } from '../hadoop/yarn/submission-order.ts';
import { pause } from '../platform/async/backoff.ts';
import { messageOf, TonyError } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';
import { siteOfCluster } from '../storage/cluster-site.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { type AdmissionDecision, type ClusterView, type checkLimits, limitsFor, refusalOfRunning } from './admission.ts';
import type { RunningJobLimits } from './job/state/events.ts';

/**
 * Explains why the job can never run in the queue: it needs more containers at the same time than the queue can provide while all other
 * jobs are idle. Returns null if the queue is large enough or unknown.
 * @param countsAll false if the scheduler takes only memory into account
 */
export function excessOverQueue(job: Job, queue: QueueRoom | null, countsAll: boolean): string | null {
  if (queue === null) {
    return null;
  }
  const counts = (resource: string): boolean => countsAll || resource === 'memory';
  const [excess] = neededContainers(job).flatMap((needed) => excessesOf(needed, queue, { counts }));
  return excess === undefined ? null : describeExcess(excess);
}

/** Values that the NodeManager sets in the container's environment. They are trusted, because users cannot change them. */
export interface OwnNode {
  readonly jobId: string;
  /** Empty for a local job, which has no NodeManager. */
  readonly user: string;
  /** The NodeManager's web server port, or 0 for a local job. */
  readonly httpPort: number;
}

/** Interval in ms at which limits are checked while the job waits for admission. */
const CHECK_EVERY_MS = 2_000;
/** Interval in ms at which the site file is checked while the job is running. */
const WATCH_EVERY_MS = 30_000;
/**
 * How long in ms a job may wait for a queue that is too small for it. Nodes that register after a restart of the ResourceManager enlarge the
 * queues.
 */
const SMALL_QUEUE_MS = 30_000;
/** Timeout in ms for reading the NodeManager's configuration. */
const NODE_MS = 5_000;

/** A ClusterView without the queue. The ResourceManager reports the queue later, when the ApplicationMaster registers. */
type Observation = Omit<ClusterView, 'queue'>;

export interface GatekeeperOptions {
  readonly frozen: FrozenJob;
  /**
   * The configuration with which the job was submitted. Used to locate the cluster if the NodeManager does not report its own
   * configuration.
   */
  readonly configuration: HadoopConfiguration;
  readonly host: string;
  readonly token: Token | undefined;
  readonly node: OwnNode;
  readonly log: Logger;
}

interface Sources {
  readonly configuration: HadoopConfiguration;
  readonly resourceManager: ResourceManager;
  readonly storage: Storage;
  readonly groups: GroupMemory;
}

/**
 * Decides whether the cluster's site file and running applications permit the job. Does not rely on job.json, because users can edit that
 * file.
 */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;
  /** Null until the NodeManager has reported its configuration. */
  #sources: Sources | null = null;
  /** User groups according to the job's own configuration. These groups are used until the NodeManager has reported its configuration. */
  readonly #groupsByOwn: GroupMemory;
  readonly #closing = new AbortController();
  #admittedIn: string | null = null;
  /**
   * The next observation to use, which may still be in progress. The constructor starts the first observation, so that it runs while the
   * ApplicationMaster registers.
   */
  #seen: Promise<Observation> | null;

  constructor(options: GatekeeperOptions) {
    this.#options = options;
    this.#groupsByOwn = groupMemory(options.configuration, options.node.user);
    this.#seen = this.#observe();
    this.#seen.catch(() => {});
  }

  /**
   * Checks the cluster repeatedly until the job is admitted or refused. Keeps waiting if the cluster does not respond.
   * @param checkJob see `admissionPolicy`
   * @param registration the job's queue, and whether its scheduler counts all resources, as the ResourceManager reports them
   * @param onWaiting called when the reason for waiting changes
   * @returns null if the gatekeeper is closed before it has decided
   */
  async decide(
    checkJob: typeof checkLimits,
    { queue, countsAll }: { readonly queue: string; readonly countsAll: boolean },
    onWaiting: (reason: string) => void,
  ): Promise<Exclude<AdmissionDecision, { type: 'waits' }> | null> {
    const { frozen, log } = this.#options;
    let reported = '';
    let tooSmallSince: number | null = null;
    while (!this.#closing.signal.aborted) {
      const observing = this.#take();
      const decision = await observing.then(
        (seen) => checkJob(frozen, viewOf(seen, queue)),
        (error: unknown): AdmissionDecision => ({
          type: 'waits',
          reason: `Waiting because the limits in the cluster's site file cannot be checked: ${messageOf(error)}`,
        }),
      );
      const excess = decision.type === 'admitted' ? excessOverQueue(frozen.job, await this.#roomOf(observing, queue), countsAll) : null;
      if (excess !== null) {
        tooSmallSince ??= performance.now();
        if (performance.now() - tooSmallSince >= SMALL_QUEUE_MS) {
          return { type: 'refused', reason: excess };
        }
      } else if (decision.type !== 'waits') {
        // Reuse this observation to determine the running job's first limits.
        this.#seen = observing;
        this.#admittedIn = await observing.then((seen) => queueName(viewOf(seen, queue).queue));
        return decision;
      }
      const reason = excess ?? (decision.type === 'waits' ? decision.reason : '');
      if (reason !== reported) {
        reported = reason;
        log.info(reported);
        onWaiting(reported);
      }
      await pause(CHECK_EVERY_MS, this.#closing.signal);
    }
    return null;
  }

  /**
   * While the job is running, periodically reports the limits that the site file sets for it. While the cluster is not responding, the
   * last reported limits remain valid.
   * @param admitted true if this attempt admitted the job, see `refusalOfRunning`
   * @param onRefused called with the reason if the job must end. No further reports follow.
   */
  async watch(
    queue: string,
    admitted: boolean,
    { onLimits, onRefused }: { onLimits: (limits: RunningJobLimits) => void; onRefused: (reason: string) => void },
  ): Promise<void> {
    const { frozen, log } = this.#options;
    let admittedIn = admitted ? this.#admittedIn : null;
    while (!this.#closing.signal.aborted) {
      const view = await this.#take().then(
        (seen) => viewOf(seen, queue),
        (error: unknown) => {
          log.warn({ error: messageOf(error) }, "could not reread the cluster's site file; the previous limits stay valid");
          return null;
        },
      );
      if (view !== null && (admittedIn !== null || view.own !== null)) {
        const refusal = refusalOfRunning(frozen, view, admittedIn);
        if (refusal !== null) {
          return onRefused(refusal);
        }
        admittedIn = queueName(view.queue);
      }
      if (view !== null) {
        onLimits(limitsFor(frozen, view));
      }
      await pause(WATCH_EVERY_MS, this.#closing.signal);
    }
  }

  /**
   * Returns the limits of the job's queue, or null if they are unknown. With YARN federation, the home ResourceManager reports only a part of
   * the queue.
   */
  async #roomOf(observing: Promise<Observation>, registeredQueue: string): Promise<QueueRoom | null> {
    const { configuration, log } = this.#options;
    if (configuration.isFederated) {
      return null;
    }
    const sources = this.#sources ?? (await this.#open());
    try {
      return await sources.resourceManager.queueRoom(viewOf(await observing, registeredQueue).queue);
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'the ResourceManager did not report the limits of the queue');
      return null;
    } finally {
      if (sources !== this.#sources) {
        closeSources(sources);
      }
    }
  }

  #take(): Promise<Observation> {
    const seen = this.#seen ?? this.#observe();
    this.#seen = null;
    return seen;
  }

  async #observe(): Promise<Observation> {
    const { jobId, user } = this.#options.node;
    const sources = this.#sources ?? (await this.#open());
    try {
      const { configuration, resourceManager, storage, groups: memory } = sources;
      const site = await siteOfCluster(storage, configuration.defaultFs);
      const { own, applications, earlier } = setsTotals(site.quotas)
        ? await allOf(jobId, resourceManager)
        : { own: await this.#ownOf(resourceManager), applications: [], earlier: new Set<string>() };
      const hasGroups = Object.keys(site.quotas.groups).length > 0;
      const groups = await memory.of(hasGroups ? [user, ...applications.map((application) => application.user)] : []);
      const { minimumMemoryMb } = configuration;
      return { jobId, user, site, own, minimumMemoryMb, applications, earlier, groupsOf: (each) => groups.get(each) ?? [] };
    } finally {
      if (sources !== this.#sources) {
        closeSources(sources);
      }
    }
  }

  /**
   * Returns the job's application, or null if the ResourceManager does not respond. The application is needed only to check quotas on total
   * usage.
   */
  async #ownOf(resourceManager: ResourceManager): Promise<Application | null> {
    const { node, log } = this.#options;
    return await resourceManager.application(node.jobId).catch((error: unknown) => {
      log.warn({ error: messageOf(error) }, "the ResourceManager did not report the application's queue");
      return null;
    });
  }

  /**
   * Connects to the cluster. Uses the NodeManager's configuration if possible, because the user may have edited the job's own configuration
   * so that it refers to another site file.
   */
  async #open(): Promise<Sources> {
    const { frozen, configuration: own, host, token, node, log } = this.#options;
    const frozenProperties = frozen.cluster.kind === 'yarn' ? frozen.cluster.hadoop : {};
    const nodeConfiguration = await configurationOfNode({ host, port: node.httpPort }, frozenProperties, NODE_MS, () => {
      if (token === undefined) {
        throw new TonyError('CREDENTIALS_INVALID', 'The container has no token for the ResourceManager.');
      }
      return provenConfiguration({
        own,
        otherwise: frozenProperties,
        token,
        login: (address) => containerLogin(address, node.user),
        timeoutMs: NODE_MS,
      });
    });
    const configuration = nodeConfiguration ?? own;
    const { defaultFs } = configuration;
    const sources = {
      configuration,
      resourceManager: ResourceManager.of(configuration, node.user),
      storage: createStorage({ hadoop: configuration, user: node.user }),
      groups: nodeConfiguration === null ? this.#groupsByOwn : groupMemory(nodeConfiguration, node.user),
    };
    if (nodeConfiguration === null) {
      log.warn(
        { node: `${host}:${node.httpPort}`, defaultFs },
        "the node did not report its configuration; using the job's configuration to find the site file",
      );
      return sources;
    }
    if (defaultFs !== own.defaultFs) {
      log.warn({ node: defaultFs, job: own.defaultFs }, 'the job and its node have different default file systems');
    }
    if (!this.#closing.signal.aborted) {
      this.#sources = sources;
    }
    return sources;
  }

  close(): void {
    this.#closing.abort();
    if (this.#sources !== null) {
      closeSources(this.#sources);
    }
    this.#sources = null;
  }
}

function groupMemory(configuration: HadoopConfiguration, caller: string): GroupMemory {
  return new GroupMemory((user) => groupsOfUser(configuration, caller, user));
}

async function allOf(jobId: string, resourceManager: ResourceManager): Promise<Pick<Observation, 'own' | 'applications' | 'earlier'>> {
  const filter = { types: [APPLICATION_TYPE], states: LIVE_STATES };
  const applications: readonly Application[] = await resourceManager.applications(filter);
  const own = applications.find(({ id }) => id === jobId) ?? null;
  const earlier = own === null ? new Set<string>() : await submittedBefore(own, applications, resourceManager, filter);
  return { own, applications, earlier };
}

/** Prefers the queue in the application report, because the user may have moved the application after the ApplicationMaster registered. */
function viewOf(seen: Observation, registeredQueue: string): ClusterView {
  return { ...seen, queue: seen.own?.queue || registeredQueue };
}

function closeSources({ resourceManager, storage }: Sources): void {
  resourceManager.close();
  storage.close();
}
