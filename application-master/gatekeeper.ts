import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../conf/errors.ts';
import { APPLICATION_TYPE, type FrozenJob } from '../conf/job.ts';
import type { Logger } from '../conf/log.ts';
import { setsTotals } from '../conf/quotas.ts';
import type { HadoopConfiguration } from '../hadoop/configuration.ts';
import { ResourceManager } from '../hadoop/resource-manager.ts';
import { LIVE_STATES } from '../hadoop/resource-manager-answers.ts';
import { groupsOfUser } from '../hadoop/user-groups.ts';
import { siteOfCluster } from '../storage/cluster-site.ts';
import type { Storage } from '../storage/storage.ts';
import { type ClusterView, type Judgement, judge, limitsFor } from './admission.ts';
import type { JobLimits } from './events.ts';

/** Between two looks at what others have (ms). */
const LOOK_EVERY_MS = 2_000;
/** And at the site file while the job runs (ms). */
const WATCH_EVERY_MS = 30_000;

/** All but what the ResourceManager says at registration. */
type Sight = Omit<ClusterView, 'queue'>;

export interface GatekeeperOptions {
  readonly frozen: FrozenJob;
  readonly configuration: HadoopConfiguration;
  readonly storage: Storage;
  readonly log: Logger;
}

/** Lets a job begin when the cluster's site file and what else runs allow it, by what the cluster itself says of both. */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;
  readonly #resourceManager: ResourceManager;
  readonly #closing = new AbortController();
  /** What has been looked at and serves once more: begun while the ApplicationMaster registers, where nothing is limited nobody waits for it. */
  #seen: Promise<Sight> | null;

  constructor(options: GatekeeperOptions) {
    this.#options = options;
    this.#resourceManager = ResourceManager.of(options.configuration, options.frozen.user);
    this.#seen = this.#look();
    this.#seen.catch(() => {});
  }

  /**
   * Looks again and again until the job is admitted or refused; while the cluster cannot be asked the job waits as well.
   *
   * @param queue of the job, as the ResourceManager has put it.
   * @param onWaiting told each time that the reason is another one.
   * @returns null when it is closed before.
   */
  async decide(queue: string, onWaiting: (reason: string) => void): Promise<Exclude<Judgement, { type: 'waits' }> | null> {
    const { frozen, log } = this.#options;
    let told = '';
    while (!this.#closing.signal.aborted) {
      const looking = this.#take();
      const judgement = await looking.then(
        (seen) => judge(frozen, { ...seen, queue }),
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
        (seen) => onLimits(limitsFor(frozen, { ...seen, queue })),
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
    const { configuration, storage, frozen } = this.#options;
    const site = await siteOfCluster(storage, configuration.defaultFs);
    const applications = setsTotals(site.quotas)
      ? await this.#resourceManager.applications({ types: [APPLICATION_TYPE], states: LIVE_STATES })
      : [];
    const hasGroups = Object.keys(site.quotas.groups).length > 0;
    const users = hasGroups ? new Set([frozen.user, ...applications.map((application) => application.user)]) : [];
    const groups = new Map(
      await Promise.all([...users].map(async (user) => [user, await groupsOfUser(configuration, frozen.user, user)] as const)),
    );
    return { site, applications, groupsOf: (user) => groups.get(user) ?? [] };
  }

  close(): void {
    this.#closing.abort();
    this.#resourceManager.close();
  }
}
