import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../conf/errors.ts';
import { APPLICATION_TYPE, type Job } from '../../conf/job.ts';
import { type Owner, type RunningJob, type Shortage, setsTotals, shortagesOf } from '../../conf/quotas.ts';
import type { Site } from '../../conf/site.ts';
import type { QueueRoom } from '../../hadoop/queue-room.ts';
import type { ResourceManager } from '../../hadoop/resource-manager.ts';
import { LIVE_STATES, type Node } from '../../hadoop/resource-manager-answers.ts';
import { amountsOf } from '../../hadoop/running-job.ts';
import type { Cluster } from '../cluster.ts';
import { countedJobs } from '../running-jobs.ts';
import type { NodeRoom } from './placement.ts';

/** What a plan says that a submit does not need: nobody waits long for it, and what is refused makes the plan shorter. */
export interface Answers {
  readonly nodes: readonly NodeRoom[] | null;
  readonly queue: QueueRoom | null;
  /** null: it is not known which jobs run. */
  readonly shortages: readonly Shortage[] | null;
  /** What is not known, and why. */
  readonly notes: readonly string[];
}

/** From the moment on at which all else is ready (ms). */
const PATIENCE_MS = 2_000;

/** Begins to ask; `answers` waits a short while for what is still under way. */
export function askCluster(
  job: Job,
  cluster: Pick<Cluster, 'configuration' | 'user'>,
  resourceManager: Pick<ResourceManager, 'nodes' | 'queueRoom' | 'applications'>,
  patienceMs: number = PATIENCE_MS,
): { answers(owner: Owner, site: Site, jobWithAll: Pick<Job, 'roles'>): Promise<Answers> } {
  const nodes = outcome(resourceManager.nodes().then((all) => all.map(nodeRoom)));
  const queue = outcome(resourceManager.queueRoom(job.queue));
  return {
    answers: async (owner, site, whole) => {
      const running = outcome(setsTotals(site.quotas) ? runningJobs(cluster, resourceManager, site) : Promise.resolve([]));
      const expired = new AbortController();
      const deadline = delay(patienceMs, 'no answer in time', { signal: expired.signal, ref: false }).catch(() => 'no answer in time');
      const within = <T>(asked: Promise<Outcome<T>>): Promise<Outcome<T>> => Promise.race([asked, deadline.then((why) => ({ why }))]);
      const [ofNodes, ofQueue, ofJobs] = await Promise.all([within(nodes), within(queue), within(running)]);
      expired.abort();
      const notes = [
        ...unknown(ofNodes, 'which nodes have room'),
        ...unknown(ofQueue, `what queue ${job.queue} has left`),
        ...unknown(ofJobs, 'what running jobs have of the totals of the site file'),
      ];
      if ('value' in ofQueue && ofQueue.value === null) notes.push(`The ResourceManager tells of no queue ${job.queue}.`);
      return {
        nodes: 'value' in ofNodes ? ofNodes.value : null,
        queue: 'value' in ofQueue ? ofQueue.value : null,
        shortages: 'value' in ofJobs ? shortagesOf(whole, owner, site.quotas, ofJobs.value) : null,
        notes,
      };
    },
  };
}

type Outcome<T> = { readonly value: T } | { readonly why: string };

/** Never rejects, so that nobody has to wait for it. */
function outcome<T>(asked: Promise<T>): Promise<Outcome<T>> {
  return asked.then(
    (value) => ({ value }),
    (error: unknown) => ({ why: messageOf(error) }),
  );
}

function unknown(answer: Outcome<unknown>, what: string): string[] {
  return 'why' in answer ? [`It is not known ${what}: ${answer.why.replace(/\.$/, '')}.`] : [];
}

function nodeRoom({ host, state, labels, total, available }: Node): NodeRoom {
  return {
    host,
    usable: state === 'RUNNING',
    labels: labels.filter((label) => label !== ''),
    total: amountsOf(total),
    free: amountsOf(available),
  };
}

async function runningJobs(
  cluster: Pick<Cluster, 'configuration' | 'user'>,
  resourceManager: Pick<ResourceManager, 'applications'>,
  { quotas }: Site,
): Promise<readonly RunningJob[]> {
  const applications = await resourceManager.applications({ types: [APPLICATION_TYPE], states: LIVE_STATES });
  return countedJobs(applications, quotas, cluster);
}
