import { demandOfTags } from '../../conf/role-tags.ts';
import type { QueueRoom } from '../../hadoop/yarn/queue-room.ts';
import type { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';
import { awaitedPartition } from '../cluster/yarn-diagnostics.ts';
import { nodeRoom } from './ask-cluster.ts';
import { masterAsk, type NodeRoom, type PlannedAsk } from './placement.ts';
import { fitOf } from './verdict.ts';

/** Time (ms) that YARN usually takes to start an ApplicationMaster. */
const USUAL_WAIT_MS = 3_000;
/** How long (ms) responses about nodes and queues are cached. */
const ANSWERS_LAST_MS = 10_000;

/**
 * Determines which resource an ApplicationMaster is waiting for. YARN's diagnostics do not say this, so the class compares the request with
 * the resources that are free on nodes and in queues.
 */
export class MasterShortages {
  readonly #resourceManager: Pick<ResourceManager, 'nodes' | 'queueRoom'>;
  readonly #user: string;
  readonly #now: () => number;
  readonly #seen = new Map<string, number>();
  readonly #answers = new Map<string, { readonly at: number; readonly value: Promise<unknown> }>();

  /**
   * @param user user who runs this process
   * @param now returns the current time in ms since the epoch
   */
  constructor(resourceManager: Pick<ResourceManager, 'nodes' | 'queueRoom'>, user: string, now: () => number = Date.now) {
    this.#resourceManager = resourceManager;
    this.#user = user;
    this.#now = now;
  }

  /**
   * Returns the reason for the wait, without a final period. Returns null if the reason is uncertain or the wait has just begun. Never
   * rejects.
   */
  async of(application: Application): Promise<string | null> {
    const ask = masterAskOf(application);
    if (ask === null || !this.#waitsLong(application)) {
      return null;
    }
    try {
      const [nodes, queue] = await Promise.all([
        this.#asked('nodes', async () => (await this.#resourceManager.nodes()).map(nodeRoom)),
        this.#asked(`queue ${application.queue}`, () => this.#resourceManager.queueRoom(application.queue)),
      ]);
      return shortageOf(ask, nodes, queue, { user: application.user, knowsUser: application.user === this.#user });
    } catch {
      return null;
    }
  }

  /**
   * Returns true if the application has waited longer than usual. YARN's clock may differ from this machine's clock. The wait therefore
   * begins at the earlier of YARN's start time and the time at which this process first saw the application.
   */
  #waitsLong({ id, startedAt }: Application): boolean {
    const first = this.#seen.get(id) ?? this.#now();
    this.#seen.set(id, first);
    return this.#now() - Math.min(first, startedAt) >= USUAL_WAIT_MS;
  }

  /** Returns the cached response or sends a request. Failed requests are cached too. */
  #asked<T>(key: string, ask: () => Promise<T>): Promise<T> {
    const known = this.#answers.get(key);
    if (known !== undefined && this.#now() - known.at < ANSWERS_LAST_MS) {
      return known.value as Promise<T>;
    }
    const value = ask();
    this.#answers.set(key, { at: this.#now(), value });
    return value;
  }
}

/**
 * Returns the request for the ApplicationMaster's container. Returns null if the application is not waiting for resources, or if it is not
 * a tony-ts job.
 */
export function masterAskOf({ state, diagnostics, tags }: Pick<Application, 'state' | 'diagnostics' | 'tags'>): PlannedAsk | null {
  const partition = state === 'ACCEPTED' ? awaitedPartition(diagnostics) : null;
  const { memory, vcores } = demandOfTags(tags)?.master ?? {};
  if (partition === null || memory === undefined || vcores === undefined) {
    return null;
  }
  return masterAsk({ memory, vcores }, partition);
}

export function shortageOf(
  ask: PlannedAsk,
  nodes: readonly NodeRoom[],
  queue: QueueRoom | null,
  { user, knowsUser }: { readonly user: string; readonly knowsUser: boolean },
): string | null {
  // YARN has accepted the application, so the queue's state, its labels and its limit for ApplicationMasters cannot be the reason. The
  // queue usage includes resources that nodes have reserved, possibly for this ApplicationMaster. With reservations, ignore the queue's
  // limits.
  const isExact = queue?.reservedContainers === 0;
  const labels = Object.entries(queue?.labels ?? {}).map(([label, { levels, user: own }]) => {
    return [label, { levels: isExact ? levels : [], user: isExact && knowsUser ? own : null, masters: null }] as const;
  });
  const accepted = queue && { ...queue, state: 'RUNNING', reaches: ['*'], labels: Object.fromEntries(labels) };
  const types = new Set(['memory', 'vcores', ...nodes.flatMap(({ total }) => Object.keys(total))]);
  const largest = Object.fromEntries([...types].map((name) => [name, Number.POSITIVE_INFINITY]));
  const { verdict } = fitOf(
    [ask],
    { user, largest, nodes, queue: accepted, maySubmit: true, shortages: [], over: 'wait' },
    'the ApplicationMaster',
  );
  if (verdict.type !== 'waits' && verdict.type !== 'impossible') {
    return null;
  }
  return verdict.reasons.map((reason) => reason.replace(/\.$/, '')).join('; ');
}
