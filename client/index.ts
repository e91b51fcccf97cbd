/** The library `tony-ts`: define, submit, follow and end jobs from a program. The command does nothing that these do not. */
export { type ErrorCode, TonyError } from '../conf/errors.ts';
export type { Job, Role } from '../conf/job.ts';
export { loadJob, parseJob } from '../conf/load-job.ts';
export type { JobResult, JobStatus, TaskState, TaskStatus, Usage } from '../conf/status.ts';
export type { ClusterOptions } from './cluster.ts';
export { type ConnectOptions, connectJob } from './connect-job.ts';
export { type FollowOptions, followJob, type JobReport, type Look } from './follow-job.ts';
export { HistoryIndex, type HistoryListing, type HistoryQuery, type ListedJob } from './history/history-index.ts';
export type { HistoryStore, JobPlace } from './history/history-store.ts';
export { findPlace, openHistoryStore, type StoreOptions } from './history/open-store.ts';
export { type Pruned, type PruneOptions, pruneHistory } from './history/prune-history.ts';
export type { JobConnection, LogPiece, LogSource, Observation } from './job-connection.ts';
export type { JobEvent } from './job-events.ts';
export { jobLogs, type LogLine, type LogOptions } from './job-logs.ts';
export { type KillReport, killJob } from './kill-job.ts';
export type { StagingEvent } from './staging.ts';
export { type SubmitOptions, submit } from './submit.ts';
