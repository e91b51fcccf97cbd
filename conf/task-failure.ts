import { z } from 'zod';
import { ROLE_NAME } from './values/role-name.ts';

// How programs, containers and tasks end, as stored in events, statuses and final.json. conf/event-text.ts describes them for users.

/** How a program ended: with an exit code, or by a signal. */
export interface ProgramEnd {
  /** null if a signal ended the program. */
  readonly code: number | null;
  /** `SIGKILL`; null if the program exited, or the signal is unknown. */
  readonly signal: string | null;
}

const CONTAINER_ENDS = [
  'exited',
  'memory-exceeded',
  'stopped-by-master',
  'released',
  'expired',
  'preempted',
  'node-lost',
  'disks-failed',
  'launch-failed',
] as const;

/** Why a container ended. The program causes only `exited` and `memory-exceeded`. */
export type ContainerEnd = (typeof CONTAINER_ENDS)[number];

/** Why a task failed. `ms` is the time that the ApplicationMaster waited. */
export type FailureCause =
  | { readonly kind: 'program'; readonly exit: ProgramEnd }
  /** `exitStatus` and `reason` are YARN's; `memoryMb` is the container's limit. */
  | {
      readonly kind: 'container';
      readonly end: ContainerEnd;
      readonly exitStatus: number;
      readonly memoryMb: number;
      readonly reason: string;
    }
  | { readonly kind: 'launch'; readonly reason: string }
  /** The executor sent no heartbeat. */
  | { readonly kind: 'silent'; readonly ms: number }
  /** A signal suspended the program. */
  | { readonly kind: 'stopped'; readonly ms: number }
  | { readonly kind: 'unanswered'; readonly order: 'prepare' | 'start'; readonly ms: number }
  /** The executor's report contradicts its earlier reports: it has lost track of its program. */
  | { readonly kind: 'inconsistent' }
  /** Another task reported that the program does not answer. */
  | { readonly kind: 'blamed'; readonly by: string }
  /** The executor did not register. */
  | { readonly kind: 'unheard'; readonly ms: number }
  /** A later attempt found neither the container nor its executor. */
  | { readonly kind: 'gone' }
  /** No node of the cluster can ever run the task. */
  | { readonly kind: 'impossible'; readonly reason: string };

/**
 * Whether a failure counts towards the task's maximum number of restarts.
 * - `charged`: it counts.
 * - `free`: it does not count, because the cluster caused the failure.
 * - `victim`: it does not count, because another failure, which is already counted, caused it.
 */
export type FailureCost = 'charged' | 'free' | 'victim';

export interface TaskFailure {
  readonly cause: FailureCause;
  readonly cost: FailureCost;
  /** host:port of the NodeManager; null if unknown. */
  readonly node: string | null;
  /** The last lines of the program's stderr. */
  readonly lines: readonly string[];
}

/** The failure of a task of the job. */
export interface FirstFailure extends TaskFailure {
  readonly role: string;
  readonly index: number;
}

/** Limits the length of text that is read from a history: ApplicationMasters write shorter text, but users can edit the files. */
const text = z.string().max(4_096);
const name = z.string().max(1_024);

export const programEndSchema: z.ZodType<ProgramEnd> = z.object({ code: z.int().nullable(), signal: name.nullable() });

const cause: z.ZodType<FailureCause> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('program'), exit: programEndSchema }),
  z.object({ kind: z.literal('container'), end: z.enum(CONTAINER_ENDS), exitStatus: z.int(), memoryMb: z.number(), reason: text }),
  z.object({ kind: z.literal('launch'), reason: text }),
  z.object({ kind: z.enum(['silent', 'stopped', 'unheard']), ms: z.number() }),
  z.object({ kind: z.literal('unanswered'), order: z.enum(['prepare', 'start']), ms: z.number() }),
  z.object({ kind: z.enum(['inconsistent', 'gone']) }),
  z.object({ kind: z.literal('blamed'), by: name }),
  z.object({ kind: z.literal('impossible'), reason: text }),
]);

const failure = z.object({
  cause,
  cost: z.enum(['charged', 'free', 'victim']),
  node: name.nullable(),
  lines: z.array(text).max(1_000),
});

export const taskFailureSchema: z.ZodType<TaskFailure> = failure;

export const firstFailureSchema: z.ZodType<FirstFailure> = failure.extend({
  role: z.string().regex(ROLE_NAME),
  index: z.int().nonnegative(),
});
