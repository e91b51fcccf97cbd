import { next } from './counters.ts';
import type { MachineState } from './job-state.ts';
import { isChief } from './ranks.ts';
import type { Snapshot } from './snapshot-format.ts';

export function snapshotOf(state: MachineState): Snapshot {
  return {
    version: 1,
    revision: state.revisions.newest,
    // The members that have been selected for the next generation may start as soon as this snapshot is durable.
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
      newest: task.newest,
      attempts: task.attempts,
      programStarts: task.programStarts,
      failures: task.failures.charged,
      failure: task.failures.newest,
      failedNodes: task.failures.nodes,
      exit: task.exit,
      startedAt: task.startedAt,
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
    roleEnds: Object.fromEntries(state.roleEnds),
    firstFailure: state.firstFailure?.failure ?? null,
    fruitless: state.gang?.fruitless ?? 0,
    metrics: mergedMetrics(state),
    earlyEnd: state.training.earlyEnd,
    // Omit notices about delegation tokens, because each attempt creates its own notices.
    notices: state.training.notices.filter(({ task }) => task !== ''),
    result: state.decision?.result ?? null,
    decisiveTask: state.decision?.task ?? null,
  };
}

/**
 * Merges the metrics of all tasks. If several tasks report the same metric, the chief's value takes precedence. Excludes the
 * metrics of spare tasks, because they describe only the tasks themselves.
 */
export function mergedMetrics(state: MachineState): Record<string, number> {
  const reporting = state.tasks.filter((task) => !task.role.spare);
  const ordered = [...reporting.filter((task) => !isChief(task)).reverse(), ...reporting.filter(isChief)];
  return Object.assign({}, state.training.metrics, ...ordered.map((task) => task.progress.metrics));
}
