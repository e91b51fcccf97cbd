import type { Job } from '../../conf/job.ts';
import type { SiteConfig } from '../../conf/site.ts';
import { redactedBody } from '../../hadoop/yarn/application-submission.ts';
import { ResourceManager, SUBMISSION_PATH } from '../../hadoop/yarn/resource-manager.ts';
import { amountsOf } from '../../hadoop/yarn/running-job.ts';
import { TonyError } from '../../platform/errors.ts';
import { untilAborted } from '../../platform/until-aborted.ts';
import { refuseTooManyTags } from '../cluster/application-tags.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { withTensorBoard } from '../job/tensorboard-role.ts';
import { askCluster } from '../plan/ask-cluster.ts';
import { environmentNotes } from '../plan/environment-note.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import { planOf } from '../plan/make-plan.ts';
import type { SubmitRequest } from '../plan/submit-request.ts';
import { withheldNotes } from '../plan/withheld-note.ts';
import { ownerOf, refuseBeyondQuotas, refuseNotFinal } from '../quotas/check-quotas.ts';
import { historyPlace, openHistory } from '../records/history-place.ts';
import { isStagingThere, jobFile, makeStaging, type StagingEvent, type StagingPlace, stageJob } from '../staging/staging.ts';
import { frozenFor, jobText, submissionFor } from './submission.ts';
import { expectedParts, type FoundParts, findParts, listParts, localParts, refuseRemoved, stageParts } from './submit-parts.ts';

export interface YarnSubmitOptions {
  readonly onEvent: (event: StagingEvent) => void;
  /** Receives progress of a runtime build. */
  readonly onProgress: (line: string) => void;
  /** Receives the resources to request and the parts to upload, before the upload. */
  readonly onPlan: (plan: JobPlan) => void;
  /** Cancels the submit and removes the job's files from HDFS. */
  readonly signal?: AbortSignal | undefined;
}

export interface YarnSubmission {
  readonly applicationId: string;
  readonly trackingUrl: string;
}

/** The result of a dry run. */
export interface DryRun {
  readonly plan: JobPlan;
  /** Null if a submit would request nothing: the job can never run, would be rejected, or is local. */
  readonly request: SubmitRequest | null;
}

/** Stages the job's parts, shared with other jobs by content, and submits the application. */
export async function submitToYarn(job: Job, cluster: HadoopCluster, options: YarnSubmitOptions): Promise<YarnSubmission> {
  return onceReady(job, cluster, options, async (ready, resourceManager) => {
    refuseHopeless(ready.plan);
    options.onPlan(ready.plan);
    await stageAndSubmit(job, cluster, ready, resourceManager, options.signal);
    return {
      applicationId: ready.applicationId,
      trackingUrl: `${cluster.configuration.resourceManagers[0]}/proxy/${ready.applicationId}/`,
    };
  });
}

/** A dry run waits longer for the plan, its only result (ms). */
const REHEARSAL_PATIENCE_MS = 15_000;

/** Does everything except uploading and submitting. Allocates an application ID, which stays unused. */
export async function dryRunOnYarn(job: Job, cluster: HadoopCluster, options: Omit<YarnSubmitOptions, 'onPlan'>): Promise<DryRun> {
  const whole = { ...options, patienceMs: REHEARSAL_PATIENCE_MS };
  return onceReady(job, cluster, whole, async ({ plan, applicationId, parts, site }) => {
    if (plan.verdict.type === 'never' || refusalOf(plan) !== null) return { plan, request: null };
    const staged = expectedParts(parts);
    const frozen = frozenFor(job, staged, { applicationId, submittedAt: Date.now(), cluster, site });
    const file = jobFile(frozen.staging, Buffer.byteLength(jobText(frozen)));
    const url = `${cluster.configuration.resourceManagers[0]}${SUBMISSION_PATH}`;
    return { plan, request: { method: 'POST', url, body: redactedBody(submissionFor(frozen, file, staged)) } };
  });
}

interface Ready {
  readonly applicationId: string;
  readonly site: SiteConfig;
  readonly plan: JobPlan;
  readonly place: StagingPlace;
  readonly hasStaging: boolean;
  readonly parts: FoundParts;
}

/** Completes all checks before anything is uploaded; removes the temporary archives at the end. */
async function onceReady<T>(
  job: Job,
  cluster: HadoopCluster,
  { onEvent, onProgress, signal, patienceMs }: Omit<YarnSubmitOptions, 'onPlan'> & { readonly patienceMs?: number },
  action: (ready: Ready, resourceManager: ResourceManager) => Promise<T>,
): Promise<T> {
  const { configuration, user, storage, root, home } = cluster;
  refuseTooManyTags(withTensorBoard(job), configuration);
  const resourceManager = ResourceManager.of(configuration, user);
  try {
    const place: StagingPlace = { storage, root, onEvent, signal };
    const asking = askCluster(job, cluster, resourceManager, patienceMs);
    // An unused application ID costs nothing.
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
      const plan = planOf(job, room, listParts(parts), [
        ...notes,
        ...withheldNotes(local.source?.withheld ?? []),
        ...environmentNotes(job),
      ]);
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
  cluster: HadoopCluster,
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
    const file = await stageJob(place, frozen.staging, jobText(frozen));
    await refuseRemoved(parts, staged);
    signal?.throwIfAborted();
    await resourceManager.submit(submissionFor(frozen, file, staged));
  } catch (error) {
    // The original error takes precedence over failures of the cleanup.
    await Promise.allSettled([storage.remove(frozen.staging), storage.remove(frozen.history)]);
    throw error;
  }
}

/** Rejects a job before the upload if the plan shows that it cannot run. */
function refuseHopeless(plan: JobPlan): void {
  const { verdict } = plan;
  if (verdict.type === 'never') throw new TonyError('JOB_TOO_LARGE', because('The job can never run on this cluster:', verdict.reasons));
  const refused = refusalOf(plan);
  if (refused !== null) throw new TonyError('JOB_REFUSED', because('The cluster would refuse the job:', refused.map(sentence)));
}

/**
 * A job of the queue `default` may still run: the scheduler's placement rules may move it to another queue, which the plan does not know.
 */
function refusalOf({ verdict, queue }: JobPlan): readonly string[] | null {
  return verdict.type === 'refused' && queue !== 'default' ? verdict.reasons : null;
}

function because(what: string, reasons: readonly string[]): string {
  const [only, ...others] = reasons;
  return others.length === 0 ? (only ?? what) : [what, ...reasons.map((reason) => `  ${reason}`)].join('\n');
}

function sentence(reason: string): string {
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`;
}
