import { TonyError } from '../conf/errors.ts';
import type { Job } from '../conf/job.ts';
import type { Site } from '../conf/site.ts';
import { redactedBody } from '../hadoop/application-submission.ts';
import { ResourceManager, SUBMISSION_PATH } from '../hadoop/resource-manager.ts';
import { amountsOf } from '../hadoop/running-job.ts';
import { ownerOf, refuseBeyondQuotas, refuseNotFinal } from './check-quotas.ts';
import type { Cluster } from './cluster.ts';
import { historyPlace, openHistory } from './history/history-place.ts';
import { askCluster } from './plan/ask-cluster.ts';
import type { JobPlan } from './plan/job-plan.ts';
import { planOf } from './plan/make-plan.ts';
import { isStagingThere, jobFile, makeStaging, type StagingEvent, type StagingPlace, stageJob } from './staging.ts';
import { frozenFor, submissionFor } from './submission.ts';
import { expectedParts, type FoundParts, findParts, listParts, localParts, stageParts } from './submit-parts.ts';
import { withTensorBoard } from './tensorboard-role.ts';
import { untilAborted } from './until-aborted.ts';

export interface YarnSubmitOptions {
  readonly onEvent: (event: StagingEvent) => void;
  /** A line of progress, when a runtime has to be built first. */
  readonly onProgress: (line: string) => void;
  /** Told what is asked for and what is uploaded, before anything is. */
  readonly onPlan: (plan: JobPlan) => void;
  /** Ends the submit; nothing of the job is left on HDFS then. */
  readonly signal?: AbortSignal | undefined;
}

export interface YarnSubmission {
  readonly applicationId: string;
  readonly trackingUrl: string;
}

/** What a submit would say to the ResourceManager. */
export interface SubmitRequest {
  readonly method: 'POST';
  readonly url: string;
  /** Every secret in it is `***`. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** What a submit would do. */
export interface Rehearsal {
  readonly plan: JobPlan;
  /** null when nothing would be asked for: the job can never run, or it runs on this machine. */
  readonly request: SubmitRequest | null;
}

/** Stages what the job needs, each thing once for all jobs that have the same, and asks for its ApplicationMaster. */
export async function submitToYarn(job: Job, cluster: Cluster, options: YarnSubmitOptions): Promise<YarnSubmission> {
  return onceReady(job, cluster, options, async (ready, resourceManager) => {
    refuseImpossible(ready.plan);
    options.onPlan(ready.plan);
    await stageAndSubmit(job, cluster, ready, resourceManager, options.signal);
    return {
      applicationId: ready.applicationId,
      trackingUrl: `${cluster.configuration.resourceManagers[0]}/proxy/${ready.applicationId}/`,
    };
  });
}

/** The plan is all that a rehearsal is for (ms). */
const REHEARSAL_PATIENCE_MS = 15_000;

/** All of a submit but uploading and asking: of the application there is an id, which is not used. */
export async function rehearseOnYarn(job: Job, cluster: Cluster, options: Omit<YarnSubmitOptions, 'onPlan'>): Promise<Rehearsal> {
  const whole = { ...options, patienceMs: REHEARSAL_PATIENCE_MS };
  return onceReady(job, cluster, whole, async ({ plan, applicationId, parts, site }) => {
    if (plan.verdict.type === 'never') return { plan, request: null };
    const staged = expectedParts(parts);
    const frozen = frozenFor(job, staged, { applicationId, submittedAt: Date.now(), cluster, site });
    const file = jobFile(frozen.staging, Buffer.byteLength(JSON.stringify(frozen)));
    const url = `${cluster.configuration.resourceManagers[0]}${SUBMISSION_PATH}`;
    return { plan, request: { method: 'POST', url, body: redactedBody(submissionFor(frozen, file, staged)) } };
  });
}

interface Ready {
  readonly applicationId: string;
  readonly site: Site;
  readonly plan: JobPlan;
  readonly place: StagingPlace;
  readonly hasStaging: boolean;
  readonly parts: FoundParts;
}

/** All that a submit has to know is found out before anything is put on the cluster; what was packed for it goes when it is done. */
async function onceReady<T>(
  job: Job,
  cluster: Cluster,
  { onEvent, onProgress, signal, patienceMs }: Omit<YarnSubmitOptions, 'onPlan'> & { readonly patienceMs?: number },
  action: (ready: Ready, resourceManager: ResourceManager) => Promise<T>,
): Promise<T> {
  const { configuration, user, storage, root, home } = cluster;
  const resourceManager = ResourceManager.of(configuration, user);
  try {
    const place: StagingPlace = { storage, root, onEvent, signal };
    const asking = askCluster(job, cluster, resourceManager, patienceMs);
    // An id that is not used costs nothing.
    const [local, { applicationId, maximum }, site, hasStaging] = await untilAborted(
      Promise.all([localParts(job, onProgress), resourceManager.newApplication(), cluster.site(), isStagingThere(place, user)]),
      signal,
    );
    const whole = withTensorBoard(job);
    const owner = await untilAborted(ownerOf(job, cluster, site), signal);
    refuseNotFinal(job, site);
    refuseBeyondQuotas(whole, owner, site);
    const [answers, parts] = await Promise.all([asking.answers(owner, site, whole), findParts(place, job, local, home)]);
    try {
      const { nodes, queue, shortages, notes } = answers;
      const room = { user, largest: amountsOf(maximum), nodes, queue, shortages, over: site.quotas.over };
      const plan = planOf(job, room, listParts(parts), notes);
      signal?.throwIfAborted();
      return await action({ applicationId, site, plan, place, hasStaging, parts }, resourceManager);
    } finally {
      await Promise.all(listParts(parts).map((part) => part.discard()));
    }
  } finally {
    resourceManager.close();
  }
}

async function stageAndSubmit(
  job: Job,
  cluster: Cluster,
  { applicationId, site, place, hasStaging, parts }: Ready,
  resourceManager: ResourceManager,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { storage, user } = cluster;
  if (!hasStaging) await makeStaging(place);
  const staged = await stageParts(parts, signal);
  const frozen = frozenFor(job, staged, { applicationId, submittedAt: Date.now(), cluster, site });
  try {
    signal?.throwIfAborted();
    await openHistory(storage, historyPlace(site, cluster), user, applicationId);
    const file = await stageJob(place, frozen.staging, JSON.stringify(frozen));
    signal?.throwIfAborted();
    await resourceManager.submit(submissionFor(frozen, file, staged));
  } catch (error) {
    // What failed is the reason that counts.
    await Promise.allSettled([storage.remove(frozen.staging), storage.remove(frozen.history)]);
    throw error;
  }
}

/** What YARN would not take on, and what nobody's end would make room for. */
function refuseImpossible({ verdict }: JobPlan): void {
  if (verdict.type !== 'never') return;
  const [only, ...others] = verdict.reasons;
  const message =
    others.length === 0
      ? (only ?? '')
      : ['The job can never run on this cluster:', ...verdict.reasons.map((reason) => `  ${reason}`)].join('\n');
  throw new TonyError('JOB_TOO_LARGE', message);
}
