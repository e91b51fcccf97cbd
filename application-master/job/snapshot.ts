import { z } from 'zod';
import { TENSORBOARD_ROLE } from '../../conf/job.ts';
import { END_STATES, TASK_STATES } from '../../conf/status.ts';
import { firstFailureSchema, programEndSchema } from '../../conf/task-failure.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { asGeneration, asRevision, next } from './counters.ts';
import type { Snapshot } from './events.ts';
import type { JobState } from './job-state.ts';
import { isChief } from './ranks.ts';

/** Extracts the part of the state that a later attempt needs. */
export function snapshotOf(state: JobState): Snapshot {
  return {
    version: 1,
    revision: state.revisions.newest,
    // A claimed generation may be started as soon as this snapshot is durable.
    generation: state.gang?.phase === 'forming' && state.gang.claimRevision !== null ? next(state.generation) : state.generation,
    startedAt: state.startedAt,
    tasks: state.tasks.map((task) => ({
      role: task.role.name,
      index: task.index,
      state: task.state,
      rank: task.rank,
      generation: task.generation,
      containerId: task.container?.id ?? null,
      node: task.container?.node ?? null,
      attempts: task.attempts,
      failures: task.failures.charged,
      failedNodes: task.failures.nodes,
      exit: task.exit,
    })),
    ending: [...state.ending.values()]
      .filter((ending) => ending.until > state.now || ending.refundable)
      .map(({ containerId, role, index, node, until, reported, refundable }) => ({
        containerId,
        role,
        index,
        node,
        until,
        reported,
        refundable,
      })),
    firstFailure: state.firstFailure?.failure ?? null,
    fruitless: state.gang?.fruitless ?? 0,
    metrics: mergedMetrics(state),
    earlyEnd: state.training.earlyEnd,
    result: state.decision?.result ?? null,
  };
}

/**
 * Merges the metrics of all tasks. If several tasks report the same metric, the chief's value wins. TensorBoard's metrics are excluded,
 * because they describe only TensorBoard itself.
 */
export function mergedMetrics(state: JobState): Record<string, number> {
  const reporting = state.tasks.filter((task) => task.role.name !== TENSORBOARD_ROLE);
  const ordered = [...reporting.filter((task) => !isChief(task)).reverse(), ...reporting.filter(isChief)];
  return Object.assign({}, state.training.metrics, ...ordered.map((task) => task.progress.metrics));
}

const count = z.int().nonnegative();
const generation = count.transform(asGeneration);
const schema = z.object({
  version: z.literal(1),
  revision: count.transform(asRevision),
  generation,
  startedAt: z.number(),
  tasks: z.array(
    z.object({
      role: z.string(),
      index: count,
      state: z.enum(TASK_STATES),
      rank: count.nullable(),
      generation,
      containerId: z.string().nullable(),
      node: z.string().nullable(),
      attempts: count,
      failures: count,
      failedNodes: z.array(z.string()),
      exit: programEndSchema.nullable(),
    }),
  ),
  ending: z.array(
    z.object({
      containerId: z.string(),
      role: z.string(),
      index: z.int().min(-1),
      node: z.string(),
      until: z.number(),
      reported: z.enum(['nothing', 'presumed', 'preempted']),
      refundable: z.boolean(),
    }),
  ),
  firstFailure: firstFailureSchema.nullable(),
  fruitless: count,
  metrics: z.record(z.string(), z.number()),
  earlyEnd: z.string().nullable(),
  result: z.object({ state: z.enum(END_STATES), diagnostics: z.string() }).nullable(),
});

/** Parses a stored snapshot. Throws STATE_UNREADABLE unless the text is a complete, valid snapshot. */
export function parseSnapshot(text: string): Snapshot {
  try {
    return schema.parse(JSON.parse(text));
  } catch (thrown) {
    const cause = thrown instanceof z.ZodError ? z.prettifyError(thrown) : messageOf(thrown);
    throw new TonyError('STATE_UNREADABLE', `The job's saved state cannot be read: ${cause}`, { cause: thrown });
  }
}
