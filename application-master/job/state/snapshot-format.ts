import * as z from 'zod';
import { END_STATES, TASK_STATES } from '../../../conf/status/status.ts';
import { firstFailureSchema, programEndSchema, taskFailureSchema } from '../../../conf/status/task-failure.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { asGeneration, asRevision } from './counters.ts';
import { DECISIVE_REASONS } from './decisive-task.ts';

const count = z.int().nonnegative();
const generation = count.transform(asGeneration);

const taskSchema = z.object({
  role: z.string(),
  index: count,
  state: z.enum(TASK_STATES),
  rank: count.nullable(),
  generation,
  containerId: z.string().nullable(),
  node: z.string().nullable(),
  /** Only shown to users. Absent in snapshots of versions that did not save it. */
  newest: z.object({ id: z.string(), node: z.string(), nodeHttp: z.string() }).nullable().catch(null),
  attempts: count,
  /** Absent in snapshots of versions that counted only containers. */
  programStarts: count.optional(),
  failures: count,
  /** Only shown to users, so an unreadable failure does not make the snapshot invalid. */
  failure: taskFailureSchema.nullable().catch(null),
  failedNodes: z.array(z.string()).readonly(),
  exit: programEndSchema.nullable(),
  startedAt: z.number().nullable(),
});

const endingSchema = z.object({
  containerId: z.string(),
  role: z.string(),
  index: z.int().min(-1),
  node: z.string(),
  /** Time in ms since the epoch at which the executor's lease ends. */
  until: z.number(),
  /** Saved because the ResourceManager does not send its report again to a later attempt. See `Ending`. */
  reported: z.enum(['nothing', 'presumed', 'preempted']),
  /** True if the container's failure was charged and the cluster may still report a different cause. */
  refundable: z.boolean(),
});

const schema = z.object({
  version: z.literal(1),
  /** Increases with each snapshot that an attempt stores. The snapshot with the highest revision is valid. */
  revision: count.transform(asRevision),
  /** Newest generation that may start once this snapshot is durable. */
  generation,
  startedAt: z.number(),
  tasks: z.array(taskSchema),
  ending: z.array(endingSchema),
  roleEnds: z.record(z.string(), z.number()),
  firstFailure: firstFailureSchema.nullable(),
  /** Number of consecutive generations that failed without progress. */
  fruitless: count,
  metrics: z.record(z.string(), z.number()),
  earlyEnd: z.string().nullable(),
  notices: z.array(z.object({ task: z.string(), text: z.string(), about: z.string() })),
  result: z.object({ state: z.enum(END_STATES), message: z.string() }).nullable(),
  decisiveTask: z.object({ role: z.string(), index: z.int(), why: z.enum(DECISIVE_REASONS) }).nullable(),
});

/** The state, stored as JSON, that a later ApplicationMaster attempt needs in order to continue the job. */
export type Snapshot = Readonly<z.infer<typeof schema>>;
export type SnapshotTask = Snapshot['tasks'][number];

/** Parses a stored snapshot. Throws STATE_UNREADABLE if the text is not a complete, valid snapshot. */
export function parseSnapshot(text: string): Snapshot {
  try {
    return schema.parse(JSON.parse(text));
  } catch (thrown) {
    const cause = thrown instanceof z.ZodError ? z.prettifyError(thrown) : messageOf(thrown);
    throw new TonyError('STATE_UNREADABLE', `The job's saved state cannot be read: ${cause}`, { cause: thrown });
  }
}
