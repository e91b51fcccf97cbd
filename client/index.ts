/** The library `tony-ts`: define, submit, follow and end jobs from a program. The command does nothing that these do not. */
export { type ErrorCode, TonyError } from '../conf/errors.ts';
export type { ExplainedKey } from '../conf/explain-key.ts';
export type { Job, Role } from '../conf/job.ts';
export { type LoadOptions, loadJob, parseJob } from '../conf/load-job.ts';
export type { Site } from '../conf/site.ts';
export type { HistoryEntry, JobResult, JobStatus, TaskState, TaskStatus, Usage } from '../conf/status.ts';
export type { Application } from '../hadoop/resource-manager-answers.ts';
export { type EmitOptions, type EmittedScheduler, emitCapacityScheduler } from './capacity-scheduler/emit-capacity-scheduler.ts';
export type { ClusterOptions } from './cluster.ts';
export { type ConnectOptions, connectJob } from './connect-job.ts';
export { type DescribedCheckpoints, type DescribedTask, describeJob, type JobDescription } from './describe-job.ts';
export type { Finding } from './doctor/diagnosis.ts';
export { type DoctorOptions, doctor } from './doctor/doctor.ts';
export { EXIT_CODES, type ExplainedCode, explainCode, explainCodes, explainConfig } from './explain.ts';
export { type FeedOptions, type FeedProgress, FeedWriter, openFeed } from './feed.ts';
export { type FollowOptions, followJob, type JobReport, type Look } from './follow-job.ts';
export { HistoryIndex, type HistoryListing, type HistoryQuery, type ListedJob } from './history/history-index.ts';
export type { HistoryStore, JobPlace } from './history/history-store.ts';
export { findPlace, openHistoryStore, type StoreOptions } from './history/open-store.ts';
export { type Pruned, type PruneOptions, pruneHistory } from './history/prune-history.ts';
export { type ImportedJob, type ImportedKey, importTony, type TonyArguments } from './import-tony.ts';
export type { JobConnection, LogPiece, LogSource, Observation } from './job-connection.ts';
export type { JobEvent } from './job-events.ts';
export { attachJob, JobHandle } from './job-handle.ts';
export { jobLogs, type LogLine, type LogOptions } from './job-logs.ts';
export type { JobRecords, YarnFacts } from './job-records.ts';
export { type Casualties, casualtiesOf, type KillReport, killJob } from './kill-job.ts';
export {
  JobLister,
  type JobProgress,
  type JobSummary,
  LISTED_STATES,
  type ListedState,
  type ListOptions,
  listJobs,
  openLister,
} from './list-jobs.ts';
export { LocalLister, type LocalListOptions, listLocalJobs } from './local-jobs.ts';
export { initJob, type NewJob } from './new-job.ts';
export type { Headroom, JobPlan, PlannedContainers, PlannedUpload, Span, Verdict } from './plan/job-plan.ts';
export type { QuotaSum, QuotaSums, UntoldJob, WaitingJob } from './quota-sums.ts';
export { type QuotaUsage, type QuotaUsageOptions, quotaUsage } from './quota-usage.ts';
export { type EventOptions, jobEvents } from './recorded-events.ts';
export { type RunFunction, type RunModule, type RunOptions, run, start } from './run.ts';
export { siteFor } from './site-for.ts';
export type { StagingEvent } from './staging.ts';
export { type PlanOptions, planJob, rehearse, type SubmitOptions, submit } from './submit.ts';
export type { Rehearsal, SubmitRequest } from './submit-yarn.ts';
export { type PartVersion, versions } from './versions.ts';
