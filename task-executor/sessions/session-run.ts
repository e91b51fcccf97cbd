import type { ProcessTree } from '../processes/process-tree.ts';

/** One run of the task's program. While it is running, the job's user can open sessions. */
export interface SessionRun {
  /** The processes of the program and of the commands that the user runs in the task. */
  readonly trees: Set<ProcessTree>;
  /** The program's working directory. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly task: string;
  /** Aborted when the program ends. The abort reason is a sentence for the user. */
  readonly signal: AbortSignal;
}
