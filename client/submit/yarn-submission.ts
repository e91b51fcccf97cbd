import type { FrozenJob, Job } from '../../conf/job.ts';
import { queueName } from '../../conf/quotas.ts';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import { gatewayTokens } from '../../hadoop/configuration/login/gateway-login.ts';
import { queuesForSubmission } from '../../hadoop/configuration/login/queue-access.ts';
import { redactedBody } from '../../hadoop/yarn/application-submission.ts';
import { amountsOf } from '../../hadoop/yarn/resource-amounts.ts';
import { ResourceManager, SUBMISSION_PATH } from '../../hadoop/yarn/resource-manager.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';
import { allOf } from '../../platform/async/all-of.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { TonyError } from '../../platform/errors.ts';
import type { JobConnections } from '../../storage/s3/s3-connection.ts';
import { MOST_ENDED, removeEndedJobs } from '../cache/ended-jobs.ts';
import { pruneDaily } from '../cache/prune-daily.ts';
import { refuseTooManyTags } from '../cluster/application-tags.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { askMasterReplacementMs } from '../cluster/master-replacement.ts';
import { readNodeRecord } from '../cluster/node-record.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { StartDeadline } from '../connections/start-deadline.ts';
import { YarnJob } from '../connections/yarn-job.ts';
import { placeUri } from '../files/place-uri.ts';
import { refuseUnknownFileSystems } from '../job/job-file-systems.ts';
import { type JobKeytab, keytabProblem, readJobKeytab } from '../job/job-keytab.ts';
import { objectStoreOf } from '../job/job-object-store.ts';
import { withTensorBoard } from '../job/tensorboard-role.ts';
import { askCluster } from '../plan/ask-cluster.ts';
import { dataNotes } from '../plan/data-notes.ts';
import { jobNotes } from '../plan/job-notes.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import { planOf } from '../plan/make-plan.ts';
import { refuseMissingPrograms } from '../plan/program-files.ts';
import { pythonNotes } from '../plan/python-nodes.ts';
import { resumeMemoryNotes } from '../plan/resume-memory.ts';
import type { SubmitRequest } from '../plan/submit-request.ts';
import { ownerOf, refuseBeyondQuotas, refuseNotFinal } from '../quotas/check-quotas.ts';
import { ClusterHistory } from '../records/cluster-history.ts';
import { type HistoryPlace, openHistory, usableHistoryPlace } from '../records/history-place.ts';
import { isStagingThere, jobFile, keytabFile, makeStaging, type StagingPlace, stageJob, stageKeytab } from '../staging/staging.ts';
import { applicationOf, frozenOf, jobText } from './application.ts';
import {
  discardParts,
  expectedParts,
  type FoundParts,
  findLocalParts,
  findParts,
  listParts,
  refuseRemoved,
  type StagedParts,
  stageParts,
} from './parts.ts';
import { type Submission, type SubmissionOptions, showPlan } from './submission.ts';

/**
 * Timeout for responses from the cluster in a dry run (ms). It is longer than the timeout in a submission, because the plan is the only
 * result of a dry run.
 */
const DRY_RUN_MAX_WAIT_MS = 15_000;

/**
 * Checks a job and allocates an application ID. Does not upload anything. Closing the submission also closes the cluster connection.
 *
 * 1. Refuse what no cluster accepts.
 * 2. Find the job's local files, and ask the cluster what the plan needs to know.
 * 3. Refuse what cannot work, and what the site file does not allow.
 * 4. Find out which files the cluster already has.
 * 5. Plan the job.
 */
export async function openYarnSubmission(job: Job, cluster: HadoopCluster, options: SubmissionOptions): Promise<Submission> {
  const { onStaging: onEvent = () => {}, onProgress = () => {}, signal, dryRun = false } = options;
  const { configuration, user, storage, root, home } = cluster;
  const whole = withTensorBoard(job);
  refuseTooManyTags(whole, configuration);
  refuseUnknownFileSystems(whole, configuration);
  const resourceManager = ResourceManager.of(configuration, user);
  try {
    const s3 = await objectStoreOf(job, cluster.s3);
    const place: StagingPlace = { storage, root, onEvent, signal };
    const dryRunOptions = { maxWaitMs: DRY_RUN_MAX_WAIT_MS, ownQueues: dryRun ? queuesForSubmission(configuration, user) : null };
    const asking = askCluster(job, cluster, resourceManager, dryRun ? dryRunOptions : undefined);
    const found = await untilAborted(
      allOf({
        local: findLocalParts(job, onProgress),
        // YARN ignores application IDs that are allocated but never used.
        application: resourceManager.newApplication(),
        site: cluster.site(),
        hasStaging: isStagingThere(place, user),
        keytab: readJobKeytab(job.kerberos, cluster),
        masterReplacementMs: askMasterReplacementMs(cluster),
        nodes: job.python.type === 'requirements' ? readNodeRecord(storage, root) : [],
        memoryNotes: resumeMemoryNotes(job, placeUri(job.checkpoint.dir, home), storage),
        dataNotes: dataNotes(job.data, home, storage),
      }),
      signal,
    );
    const { local, application, site, hasStaging, keytab, masterReplacementMs } = found;
    refuseMissingPrograms(job, local.source);

    const owner = await untilAborted(ownerOf(job, cluster, site), signal);
    refuseNotFinal(job, site);
    refuseBeyondQuotas(whole, owner, site);

    const history = await untilAborted(usableHistoryPlace(storage, site, cluster), signal);
    const answering = asking.answers(owner, site, whole);
    // Avoid an unhandled rejection if a request fails before its response is awaited.
    answering.catch(() => {});
    const parts = await findParts(place, job, local, home);
    try {
      const { notes, ...answers } = await answering;
      const room = { user, largest: amountsOf(application.maximum), ...answers, over: site.quotas.over };
      const ofJob = jobNotes(job, { source: local.source, configuration, keytab, keytabProblem: await keytabProblem(job.kerberos) });
      const { pythonEnvironment } = local;
      const ofPython =
        pythonEnvironment !== null && 'needs' in pythonEnvironment ? pythonNotes(job, pythonEnvironment.needs, found.nodes) : [];
      const allNotes = [...notes, ...ofJob, ...found.dataNotes, ...ofPython, ...found.memoryNotes, ...history.notes];
      const plan = planOf(job, room, listParts(parts), allNotes);
      signal?.throwIfAborted();
      const { applicationId } = application;
      const checked = { job, plan, applicationId, site, history: history.place, place, hasStaging, masterReplacementMs, parts, s3, keytab };
      return new YarnSubmission(cluster, resourceManager, options, checked);
    } catch (error) {
      await discardParts(parts);
      throw error;
    }
  } catch (error) {
    resourceManager.close();
    throw error;
  }
}

interface Checked {
  readonly job: Job;
  readonly plan: JobPlan;
  readonly applicationId: string;
  readonly site: SiteConfig;
  readonly history: HistoryPlace;
  readonly place: StagingPlace;
  readonly hasStaging: boolean;
  /** See `YarnCluster`. */
  readonly masterReplacementMs: number | undefined;
  readonly parts: FoundParts;
  readonly s3: JobConnections | null;
  readonly keytab: JobKeytab | null;
}

class YarnSubmission implements Submission {
  readonly job: Job;
  readonly plan: JobPlan;
  readonly signal: AbortSignal | undefined;
  readonly #checked: Checked;
  readonly #cluster: HadoopCluster;
  readonly #resourceManager: ResourceManager;
  readonly #options: SubmissionOptions;
  #isSubmitted = false;

  constructor(cluster: HadoopCluster, resourceManager: ResourceManager, options: SubmissionOptions, checked: Checked) {
    this.job = checked.job;
    this.plan = checked.plan;
    this.signal = options.signal;
    this.#checked = checked;
    this.#cluster = cluster;
    this.#resourceManager = resourceManager;
    this.#options = options;
  }

  request(): SubmitRequest | null {
    if (this.plan.verdict.type === 'impossible' || refusalOf(this.plan) !== null) {
      return null;
    }
    const staged = expectedParts(this.#checked.parts);
    const frozen = this.#freeze(staged);
    const { keytab, s3 } = this.#checked;
    const { configuration, login } = this.#cluster;
    const own = [
      jobFile(frozen.staging, Buffer.byteLength(jobText(frozen))),
      ...(keytab === null ? [] : [keytabFile(frozen.staging, keytab.content.reveal().length)]),
    ];
    const url = `${configuration.resourceManagers[0]}${SUBMISSION_PATH}`;
    const submission = applicationOf(frozen, own, staged, { tokens: [], keepTokens: login.keepsTokens, s3, configuration });
    return { method: 'POST', url, body: redactedBody(submission) };
  }

  async submit(): Promise<JobConnection> {
    refuseHopeless(this.plan);
    showPlan(this.plan, this.#options);
    const { history, place, hasStaging, parts, applicationId, s3, keytab } = this.#checked;
    const { configuration, login, storage, user } = this.#cluster;
    if (!hasStaging) {
      await makeStaging(place);
    }
    const staged = await stageParts(parts, this.signal);
    const frozen = this.#freeze(staged);
    try {
      this.signal?.throwIfAborted();
      await openHistory(storage, history, user, applicationId);
      const own = [await stageJob(place, frozen.staging, jobText(frozen))];
      if (keytab !== null) {
        own.push(await stageKeytab(place, frozen.staging, keytab.content));
      }
      await refuseRemoved(parts, staged);
      this.signal?.throwIfAborted();
      const tokens = [...(await login.jobTokens(frozen.fileSystems)), ...(await gatewayTokens(configuration))];
      await this.#resourceManager.submit(applicationOf(frozen, own, staged, { tokens, keepTokens: login.keepsTokens, s3, configuration }));
    } catch (error) {
      // Throw the original error even if the cleanup fails.
      await Promise.allSettled([storage.remove(frozen.staging), storage.remove(frozen.history)]);
      throw error;
    }
    this.#isSubmitted = true;
    await Promise.all([this.#tellPlacement(), this.#tidy()]);
    const { startTimeoutMs } = this.job.master;
    return new YarnJob(applicationId, this.#cluster, startTimeoutMs === null ? null : new StartDeadline(startTimeoutMs));
  }

  /** Says what the ResourceManager has changed. Ignores failures, because the job is already submitted. */
  async #tellPlacement(): Promise<void> {
    const placed = await this.#resourceManager.application(this.#checked.applicationId).catch(() => null);
    for (const note of placed === null ? [] : placementNotes(this.job, placed)) {
      this.#options.onProgress?.(note);
    }
  }

  /**
   * Removes unused entries from the cache, and what ended jobs have left. Ignores failures, because the job is already submitted.
   * `tony-ts cache prune` reports failures.
   */
  async #tidy(): Promise<void> {
    const store = await ClusterHistory.open(this.#cluster, { ownsCluster: false });
    try {
      await removeEndedJobs(store, MOST_ENDED.submission);
      await pruneDaily(store, Date.now());
    } catch {
    } finally {
      store.close();
    }
  }

  async close(): Promise<void> {
    this.#resourceManager.close();
    if (!this.#isSubmitted) {
      this.#cluster.close();
    }
    await discardParts(this.#checked.parts);
  }

  #freeze(staged: StagedParts): FrozenJob {
    const { job, applicationId, history, keytab, masterReplacementMs } = this.#checked;
    const principal = keytab?.principal ?? null;
    const submittedAt = Date.now();
    return frozenOf(job, staged, { jobId: applicationId, submittedAt, cluster: this.#cluster, history, principal, masterReplacementMs });
  }
}

/** Returns a note for each value that the ResourceManager has changed in a submission. YARN reports these changes only in its own log. */
export function placementNotes(job: Pick<Job, 'queue' | 'priority'>, placed: Pick<Application, 'queue' | 'priority'>): string[] {
  const isMoved = queueName(placed.queue) !== queueName(job.queue);
  return [
    ...(isMoved ? [`YARN's placement rules put the job in queue ${placed.queue} instead of ${job.queue}.`] : []),
    ...(placed.priority < job.priority
      ? [
          `YARN lowered the job's priority from ${job.priority} to ${placed.priority}, the maximum of the cluster ` +
            '(yarn.cluster.max-application-priority) or of the queue.',
        ]
      : []),
  ];
}

function refuseHopeless(plan: JobPlan): void {
  const { verdict } = plan;
  if (verdict.type === 'impossible') {
    throw new TonyError('RESOURCES_EXCEEDED', because('The job can never run on this cluster:', verdict.reasons));
  }
  const refused = refusalOf(plan);
  if (refused !== null) {
    throw new TonyError('JOB_DENIED', because('The cluster would reject the job:', refused.map(sentence)));
  }
}

/**
 * Returns the reasons why YARN would reject the job, or null if there are none. Always returns null for the `default` queue, because YARN's
 * placement rules may move the job to another queue, and the plan does not consider these rules.
 */
function refusalOf({ verdict, queue }: JobPlan): readonly string[] | null {
  return verdict.type === 'rejected' && queue !== 'default' ? verdict.reasons : null;
}

function because(what: string, reasons: readonly string[]): string {
  const [only, ...others] = reasons;
  return others.length === 0 ? (only ?? what) : [what, ...reasons.map((reason) => `  ${reason}`)].join('\n');
}

function sentence(reason: string): string {
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`;
}
