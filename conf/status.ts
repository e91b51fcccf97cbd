/** What `GET /tony/api/job` answers and what final.json holds: the job as a person wants to see it. */
export interface JobStatus {
  readonly applicationId: string;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly state: 'STARTING' | 'WAITING' | 'RUNNING' | 'RECOVERING' | JobResult['state'];
  /** Why it waits, or how it ended. */
  readonly message: string;
  readonly masterAttempt: number;
  readonly generations: number;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly checkpointDir: string;
  readonly summaryDir: string;
  readonly notices: readonly string[];
  /** What went wrong first; null when nothing has. */
  readonly failure: FirstFailure | null;
  readonly tensorboard: TensorBoardStatus;
  /** Null for a job of fixed size. */
  readonly elastic: ElasticStatus | null;
  readonly master: MasterStatus | null;
  readonly tasks: readonly TaskStatus[];
}

export interface FirstFailure {
  /** `worker:1`; null when it was no task's. */
  readonly task: string | null;
  /** What happened, in a sentence. */
  readonly text: string;
  /** The last lines of the program's stderr. */
  readonly lines: readonly string[];
}

export interface TensorBoardStatus {
  /** `off`: the job asks for none. `unavailable`: there is none, and `message` says why; the job's own charts serve. */
  readonly state: 'off' | 'waiting' | 'starting' | 'ready' | 'unavailable';
  readonly message: string;
}

/** A role whose tasks come and go with the room in the cluster. */
export interface ElasticStatus {
  readonly role: string;
  /** Tasks of the role in the generation that runs; 0 while one is formed. */
  readonly running: number;
  readonly least: number;
  readonly most: number;
}

/** The ApplicationMaster's own process. */
export interface MasterStatus {
  readonly node: string;
  readonly rssBytes: number;
  readonly cpuCores: number;
  /** How late its timers fire: 99th percentile of the last minute, ms. */
  readonly latenessMs: number;
}

export interface TaskStatus {
  readonly role: string;
  readonly index: number;
  readonly state: TaskState;
  readonly generation: number;
  readonly attempts: number;
  readonly failures: number;
  readonly containerId: string | null;
  readonly node: string | null;
  readonly nodeHttp: string | null;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly usage: Usage | null;
  /** ms since the last heartbeat; null before the first. */
  readonly silentMs: number | null;
  readonly exitCode: number | null;
  readonly failure: string | null;
}

export interface Usage {
  readonly rssBytes: number;
  readonly cpuCores: number;
  readonly gpus: readonly { index: number; utilization: number; memoryUsedBytes: number; memoryTotalBytes: number }[];
  readonly stopped: boolean;
}

export type TaskState = 'requested' | 'allocated' | 'launching' | 'registered' | 'running' | 'succeeded' | 'failed' | 'lost' | 'stopped';

export interface JobResult {
  readonly state: 'SUCCEEDED' | 'FAILED' | 'KILLED';
  /** Cause and next step, in a sentence or two; when it succeeded, why training ended early, if it did. Goes into YARN's diagnostics. */
  readonly diagnostics: string;
}

/** One line of the history's events.jsonl. */
export interface HistoryEntry {
  readonly at: number;
  readonly event: string;
  readonly role?: string;
  readonly index?: number;
  /** Which container of the task it is about, counted from 1. */
  readonly attempt?: number;
  readonly generation?: number;
  readonly containerId?: string;
  readonly node?: string;
  readonly detail?: string;
}

/** One line of the history's metrics-N.jsonl: what all live tasks used at a moment. */
export interface UsageSample {
  /** ms since the epoch. */
  readonly at: number;
  readonly tasks: readonly TaskUsageSample[];
}

export interface TaskUsageSample {
  /** `worker:0`. */
  readonly task: string;
  readonly step: number;
  readonly rssBytes: number;
  readonly cpuCores: number;
  /** Mean over the task's GPUs, 0..1; null without any. */
  readonly gpuUtilization: number | null;
  readonly gpuMemoryBytes: number | null;
}
