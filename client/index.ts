/** Public API of `tony-ts`: functions that define, submit, follow and kill jobs. */

export type { ExplainedKey } from '../conf/explain-key.ts';
export type { Job, Role } from '../conf/job.ts';
export type { LoadOptions } from '../conf/resolve/load-job.ts';
export type { SiteConfig } from '../conf/resolve/site.ts';
export { describeEntry, describeFailure } from '../conf/status/event-text.ts';
export { isOver, type JobInfo, type JobUrls, type ListedJob, type YarnReport } from '../conf/status/job-info.ts';
export {
  type HistoryEntry,
  JOB_STATES,
  type JobResult,
  type JobState,
  type OrphanedContainer,
  type TaskState,
  type TaskStatus,
  type Usage,
} from '../conf/status/status.ts';
export type { FailureCause, FailureCost, FirstFailure, ProgramEnd, TaskFailure } from '../conf/status/task-failure.ts';
export type { Application } from '../hadoop/yarn/resource-manager-answers.ts';
export { type ErrorCode, EXIT_CODES, TonyError } from '../platform/errors.ts';
export type { CacheUse } from './cache/cache-uses.ts';
export type { CacheContent } from './cache/cached-folders.ts';
export {
  type CacheEntry,
  type CacheListing,
  type CacheListOptions,
  listCache,
  type PruneCacheOptions,
  type PrunedEntry,
  pruneCache,
} from './cache/prune-cache.ts';
export { type ExplainedCode, explainCode, explainCodes, explainConfig } from './cli/help/explain.ts';
export { type PartVersion, versions } from './cli/help/versions.ts';
export type { ClusterOptions } from './cluster/cluster.ts';
export { siteFor } from './cluster/site-for.ts';
export type { ConnectOptions } from './connections/connect-job.ts';
export type { JobRecords } from './connections/job-records.ts';
export type { DescribedCheckpoints, DescribedTask, JobDescription } from './connections/operations/describe-job.ts';
export type { EndedJob, FollowOptions } from './connections/operations/follow-job.ts';
export type { JobEvent } from './connections/operations/job-events.ts';
export type { SavedFile } from './connections/operations/job-files.ts';
export type { LogLine, LogOptions } from './connections/operations/job-logs.ts';
export type { KillImpact, KillReport } from './connections/operations/kill-job.ts';
export type { LostNode } from './connections/operations/lost-nodes.ts';
export type { EventOptions } from './connections/operations/recorded-events.ts';
export type { Finding } from './doctor/diagnosis.ts';
export { type DoctorOptions, doctor } from './doctor/doctor.ts';
export type { FeedRecord } from './feed/chunk-queue.ts';
export { type FeedOptions, type FeedProgress, type FeedWriter, openFeed } from './feed/feed.ts';
export { HistoryIndex, type HistoryJob, type HistoryListing, type HistoryQuery } from './history/history-index.ts';
export { openHistoryStore, type StoreOptions } from './history/open-store.ts';
export { type Pruned, type PruneOptions, pruneHistory } from './history/prune-history.ts';
export { initJob, type NewJob } from './job/new-job.ts';
export { JobLister, type ListOptions, openLister } from './listing/job-lister.ts';
export { listJobs } from './listing/list-jobs.ts';
export { LocalLister, type LocalListOptions, listLocalJobs } from './listing/local-jobs.ts';
export type { Headroom, JobPlan, PlannedContainers, PlannedUpload, Span, Verdict } from './plan/job-plan.ts';
export type { SubmitRequest } from './plan/submit-request.ts';
export type { QuotaSum, QuotaSums, UndeclaredUse, WaitingJob } from './quotas/quota-sums.ts';
export { type QuotaUsage, type QuotaUsageOptions, quotaUsage } from './quotas/quota-usage.ts';
export { findPlace } from './records/find-place.ts';
export type { HistoryStore } from './records/history-store.ts';
export type { JobPlace } from './records/job-place.ts';
export type { LogPiece } from './records/log-piece.ts';
export type { ExecStreams } from './sessions/exec.ts';
export type { ForwardedPort, ForwardOptions } from './sessions/forward-port.ts';
export type { StagingEvent } from './staging/staging.ts';
export { JobHandle, openJob, type ResultEvent } from './submit/job-handle.ts';
export { type LoadJobOptions, loadJob } from './submit/load-job-file.ts';
export type { DryRun } from './submit/open-submission.ts';
export { type RunFunction, type RunModule, type RunOptions, run, start } from './submit/run.ts';
export type { PlanOptions, SubmitOptions } from './submit/submission.ts';
export { dryRun, planJob, submit } from './submit/submit.ts';
export { type ImportedJob, type ImportedKey, importTony } from './tony-import/import-tony.ts';
export type { TonyArguments } from './tony-import/tony-arguments.ts';
