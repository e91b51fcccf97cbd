import * as z from 'zod';
import { CONTAINER_ENDS, type ContainerEnd } from '../../hadoop/yarn/container-exit.ts';
import { ROLE_NAME } from '../values/role-name.ts';

// Types that describe how programs, containers and tasks ended, as stored in events, statuses and final.json. conf/status/event-text.ts
// converts them to text.

export interface ProgramEnd {
  /** Exit code, or null if a signal killed the program. */
  readonly code: number | null;
  /** Name of the signal, such as `SIGKILL`. Null if the program exited or the signal is unknown. */
  readonly signal: string | null;
}

/** Cause of a task failure. `ms` is the time after which the ApplicationMaster considered the task failed. */
export type FailureCause =
  | { readonly kind: 'program'; readonly exit: ProgramEnd }
  /** `exitStatus` and `message` are reported by YARN. `memoryBytes` is the container's memory limit. */
  | {
      readonly kind: 'container';
      readonly end: ContainerEnd;
      readonly exitStatus: number;
      readonly memoryBytes: number;
      readonly message: string;
    }
  | { readonly kind: 'launch'; readonly message: string }
  /** The executor stopped sending heartbeats. */
  | { readonly kind: 'silent'; readonly ms: number }
  /** A signal such as SIGSTOP suspended the program. */
  | { readonly kind: 'stopped'; readonly ms: number }
  | { readonly kind: 'unanswered'; readonly order: 'prepare' | 'start'; readonly ms: number }
  /** The executor's reports contradict each other, so the executor has lost track of its program. */
  | { readonly kind: 'inconsistent' }
  /** Another task reported that this task's program did not respond. */
  | { readonly kind: 'blamed'; readonly by: string }
  /** The executor did not register in time. */
  | { readonly kind: 'unheard'; readonly ms: number }
  /** The program ran longer than its role's time limit. */
  | { readonly kind: 'time-limit'; readonly ms: number }
  /** A new ApplicationMaster attempt found neither the container nor its executor. */
  | { readonly kind: 'gone' }
  /** No node in the cluster has enough resources for the task. */
  | { readonly kind: 'impossible'; readonly message: string };

/**
 * Returns the final state of a task that does not restart after a failure: `failed` if its own program, its time limit or its memory limit
 * caused the failure, and `lost` if the cluster took its container or provides none, or if its executor is silent.
 */
export function endStateOf(cause: Pick<FailureCause, 'kind'> & { readonly end?: ContainerEnd }): 'failed' | 'lost' {
  switch (cause.kind) {
    case 'program':
    case 'time-limit':
    case 'stopped':
    case 'blamed':
    case 'launch':
      return 'failed';
    case 'container':
      return cause.end === 'exited' || cause.end === 'memory-exceeded' || cause.end === 'launch-failed' ? 'failed' : 'lost';
    case 'silent':
    case 'unanswered':
    case 'inconsistent':
    case 'unheard':
    case 'gone':
    case 'impossible':
      return 'lost';
  }
}

/**
 * Effect of a failure on the task's remaining restarts.
 * - `charged`: the failure uses up one restart.
 * - `free`: the failure does not use up a restart, because the cluster caused it.
 * - `victim`: the failure does not use up a restart, because another task's failure caused it.
 */
export type FailureCost = 'charged' | 'free' | 'victim';

export interface TaskFailure {
  readonly cause: FailureCause;
  readonly cost: FailureCost;
  /** Address of the NodeManager as host:port, or null if unknown. */
  readonly node: string | null;
  readonly lines: readonly string[];
}

export interface FirstFailure extends TaskFailure {
  readonly role: string;
  readonly index: number;
}

/** Maximum length of strings in a history. ApplicationMasters write shorter strings, but users can edit the files. */
const text = z.string().max(4_096);
const name = z.string().max(1_024);

export const programEndSchema: z.ZodType<ProgramEnd> = z.object({ code: z.int().nullable(), signal: name.nullable() });

const cause: z.ZodType<FailureCause> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('program'), exit: programEndSchema }),
  z.object({ kind: z.literal('container'), end: z.enum(CONTAINER_ENDS), exitStatus: z.int(), memoryBytes: z.number(), message: text }),
  z.object({ kind: z.literal('launch'), message: text }),
  z.object({ kind: z.enum(['silent', 'stopped', 'unheard', 'time-limit']), ms: z.number() }),
  z.object({ kind: z.literal('unanswered'), order: z.enum(['prepare', 'start']), ms: z.number() }),
  z.object({ kind: z.enum(['inconsistent', 'gone']) }),
  z.object({ kind: z.literal('blamed'), by: name }),
  z.object({ kind: z.literal('impossible'), message: text }),
]);

const failure = z.object({
  cause,
  cost: z.enum(['charged', 'free', 'victim']),
  node: name.nullable(),
  // Check the length first, because a long list of invalid lines would produce as many errors.
  lines: z.array(z.unknown()).max(1_000).pipe(z.array(text)),
});

export const taskFailureSchema: z.ZodType<TaskFailure> = failure;

export const firstFailureSchema: z.ZodType<FirstFailure> = failure.extend({
  role: z.string().regex(ROLE_NAME),
  index: z.int().nonnegative(),
});
