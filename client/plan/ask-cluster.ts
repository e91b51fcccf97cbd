import { APPLICATION_TYPE, type Job } from '../../conf/job.ts';
import { placeJobs, shortagesOf, TakenResources } from '../../conf/quota-order.ts';
import { type Owner, type Shortage, setsTotals } from '../../conf/quotas.ts';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import { includesQueue } from '../../hadoop/configuration/login/queue-access.ts';
import type { QueueRoom } from '../../hadoop/yarn/queue-room.ts';
import { amountsOf } from '../../hadoop/yarn/resource-amounts.ts';
import type { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import { LIVE_STATES, type Node } from '../../hadoop/yarn/resource-manager-answers.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { suggest } from '../../platform/text/suggest.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { countedJobs } from '../quotas/running-jobs.ts';
import type { NodeRoom } from './placement.ts';

/** The cluster's state, on which a plan is based. Parts may be missing, because a plan is only informational. */
export interface Answers {
  readonly nodes: readonly NodeRoom[] | null;
  readonly queue: QueueRoom | null;
  /** False if YARN's ACLs do not allow the user to submit to the queue. Null if it is unknown or was not asked. */
  readonly maySubmit: boolean | null;
  /** Quota totals that the job would exceed, or null if the running jobs are unknown. */
  readonly shortages: readonly Shortage[] | null;
  /** Missing parts, and the reasons why they are missing. */
  readonly notes: readonly string[];
}

/** Time limit (ms) for the responses, measured from the call to `answers`. */
const MAX_WAIT_MS = 2_000;

interface AskOptions {
  readonly maxWaitMs?: number;
  /**
   * Queues to which the user may submit. A submission does not ask for them, because YARN checks the ACLs itself, and with Kerberos this
   * question needs a delegation token.
   */
  readonly ownQueues?: Promise<readonly string[]> | null;
}

/**
 * Sends the requests. The returned `answers` waits up to `maxWaitMs` for the responses.
 * @throws TonyError JOB_INVALID (from `answers`) if the job's queue does not exist, JOB_DENIED if a node label does not exist
 */
export function askCluster(
  job: Job,
  cluster: Pick<HadoopCluster, 'configuration' | 'user'>,
  resourceManager: Pick<ResourceManager, 'nodes' | 'queueRoom' | 'queuesWithout' | 'nodeLabels' | 'applications'>,
  { maxWaitMs = MAX_WAIT_MS, ownQueues = null }: AskOptions = {},
): { answers(owner: Owner, site: SiteConfig, jobWithAll: Pick<Job, 'roles' | 'master'>): Promise<Answers> } {
  const nodes = outcome(resourceManager.nodes().then((all) => all.map(nodeRoom)));
  const queue = outcome(resourceManager.queueRoom(job.queue));
  const access = outcome(ownQueues?.then((own) => includesQueue(own, job.queue)) ?? Promise.resolve(null));
  const wantedLabels = labelsOf(job);
  const labels = outcome(wantedLabels.length === 0 ? Promise.resolve(null) : resourceManager.nodeLabels());
  return {
    answers: async (owner, site, whole) => {
      const running = outcome(
        setsTotals(site.quotas) ? takenResources(cluster, resourceManager, site) : Promise.resolve(new TakenResources()),
      );
      const end = performance.now() + maxWaitMs;
      const within = <T>(asked: Promise<Outcome<T>>, waitMs = end - performance.now()): Promise<Outcome<T>> =>
        withTimeout(asked, waitMs, () => ({ why: 'no answer in time' }));
      const [ofNodes, ofQueue, ofAccess, ofJobs, ofLabels] = await Promise.all([
        within(nodes),
        within(queue),
        // Some machines cannot reach the port for Hadoop RPC.
        within(access, Math.min(maxWaitMs, MAX_WAIT_MS)),
        within(running),
        within(labels),
      ]);
      if ('value' in ofLabels && ofLabels.value !== null) {
        rejectUnknownLabels(wantedLabels, ofLabels.value);
      }
      const notes = [
        ...unknown(ofNodes, 'which nodes have free resources'),
        ...unknown(ofQueue, `what is free in queue ${job.queue}`),
        ...unknown(ofAccess, `whether ${cluster.user} may submit to queue ${job.queue}`),
        ...unknown(ofJobs, 'how much of the quota totals is in use'),
      ];
      if ('value' in ofQueue && ofQueue.value === null) {
        const others = await within(outcome(resourceManager.queuesWithout(job.queue)));
        if ('value' in others && others.value !== null) {
          throw unknownQueue(job.queue, others.value);
        }
        notes.push(`The ResourceManager does not list the queue ${job.queue}.`);
      }
      return {
        nodes: 'value' in ofNodes ? ofNodes.value : null,
        queue: 'value' in ofQueue ? ofQueue.value : null,
        maySubmit: 'value' in ofAccess ? ofAccess.value : null,
        shortages: 'value' in ofJobs ? shortagesOf(whole, owner, site.quotas, ofJobs.value) : null,
        notes,
      };
    },
  };
}

type Outcome<T> = { readonly value: T } | { readonly why: string };

/** Converts a rejection to a value, because a request may fail before the caller awaits it. */
function outcome<T>(asked: Promise<T>): Promise<Outcome<T>> {
  return asked.then(
    (value) => ({ value }),
    (error: unknown) => ({ why: messageOf(error) }),
  );
}

function unknown(answer: Outcome<unknown>, what: string): string[] {
  return 'why' in answer ? [`Cannot determine ${what}: ${answer.why.replace(/\.$/, '')}.`] : [];
}

export function nodeRoom({ host, state, labels, total, available }: Node): NodeRoom {
  return {
    host,
    usable: state === 'RUNNING',
    labels: labels.filter((label) => label !== ''),
    total: amountsOf(total),
    free: amountsOf(available),
  };
}

/** Returns the node labels that the job names, with the setting that contains each label. */
function labelsOf({ roles, master }: Pick<Job, 'roles' | 'master'>): { readonly setting: string; readonly label: string }[] {
  const all = [
    { setting: 'master.nodeLabel', label: master.nodeLabel },
    ...roles.map(({ name, nodeLabel }) => ({ setting: `roles.${name}.nodeLabel`, label: nodeLabel })),
  ];
  return all.flatMap(({ setting, label }) => (label === null || label === '' ? [] : { setting, label }));
}

function rejectUnknownLabels(wanted: readonly { readonly setting: string; readonly label: string }[], known: readonly string[]): void {
  const unknown = wanted.find(({ label }) => !known.includes(label));
  if (unknown === undefined) {
    return;
  }
  const { setting, label } = unknown;
  const meant = suggest(label, known);
  const question = meant === undefined ? '.' : `; did you mean ${meant}?`;
  throw new TonyError('JOB_DENIED', `The cluster has no node label ${label}${question}`, {
    hint:
      known.length === 0 ? `The cluster has no node labels. Remove ${setting}.` : `Its labels are ${known.join(', ')}. Change ${setting}.`,
  });
}

function unknownQueue(queue: string, others: readonly string[]): TonyError {
  const meant = suggest(queue, others);
  return new TonyError('JOB_INVALID', `The cluster has no queue ${queue}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, {
    hint: `Its queues are ${others.join(', ')}. Change \`queue\` in job.yaml, or override it with --set queue=NAME.`,
  });
}

async function takenResources(
  cluster: Pick<HadoopCluster, 'configuration' | 'user'>,
  resourceManager: Pick<ResourceManager, 'applications'>,
  { quotas, final }: SiteConfig,
): Promise<TakenResources> {
  const applications = await resourceManager.applications({ types: [APPLICATION_TYPE], states: LIVE_STATES });
  return placeJobs({ quotas, final }, await countedJobs(applications, quotas, cluster)).taken;
}
