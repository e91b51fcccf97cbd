import type { JobInfo } from '../../../conf/status/job-info.ts';
import { jobMessage } from '../../../conf/status/job-message.ts';
import type { JobState, TaskStatus } from '../../../conf/status/status.ts';
import type { ProgramEnd, TaskFailure } from '../../../conf/status/task-failure.ts';

export type JobEvent =
  | { readonly type: 'state'; readonly state: JobState; readonly message: string; readonly generation: number }
  | {
      readonly type: 'task';
      readonly role: string;
      readonly index: number;
      readonly state: TaskStatus['state'];
      readonly generation: number;
      readonly attempts: number;
      readonly node: string | null;
      readonly exit: ProgramEnd | null;
      readonly failure: TaskFailure | null;
    }
  | { readonly type: 'metrics'; readonly step: number; readonly metrics: Readonly<Record<string, number>> }
  | { readonly type: 'checkpoint'; readonly step: number }
  | { readonly type: 'notice'; readonly message: string };

/**
 * Returns the events that happened between two observations.
 * @param before null if `after` is the first observation
 */
export function changes(before: JobInfo | null, after: JobInfo): JobEvent[] {
  const events: JobEvent[] = [];
  if (before?.state !== after.state || before.message !== after.message) {
    events.push({ type: 'state', state: after.state, message: jobMessage(after), generation: after.generations });
  }
  const known = new Map(before?.tasks.map((task) => [`${task.role}:${task.index}`, task]));
  for (const task of after.tasks) {
    const was = known.get(`${task.role}:${task.index}`);
    if (was?.state === task.state && was.generation === task.generation && was.attempts === task.attempts) {
      continue;
    }
    const { role, index, state, generation, attempts, node, exit, failure } = task;
    events.push({ type: 'task', role, index, state, generation, attempts, node, exit, failure });
  }
  for (const message of after.notices.slice(keptOf(before?.notices ?? [], after.notices))) {
    events.push({ type: 'notice', message });
  }
  if (after.checkpointStep !== (before?.checkpointStep ?? 0)) {
    events.push({ type: 'checkpoint', step: after.checkpointStep });
  }
  // A restart sets the step to 0; the change of the state has reported it.
  if ((after.step > 0 && after.step !== before?.step) || differ(before?.metrics ?? {}, after.metrics)) {
    events.push({ type: 'metrics', step: after.step, metrics: after.metrics });
  }
  return events;
}

/**
 * Returns the number of notices at the beginning of `after` that are already in `before`. The ApplicationMaster keeps only the newest
 * notices, so `after` may no longer contain the oldest notices of `before`.
 */
function keptOf(before: readonly string[], after: readonly string[]): number {
  let at = 0;
  const kept = after.findIndex((message) => {
    at = before.indexOf(message, at) + 1;
    return at === 0;
  });
  return kept < 0 ? after.length : kept;
}

function differ(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>): boolean {
  const names = Object.keys(b);
  return names.length !== Object.keys(a).length || names.some((name) => !Object.is(a[name], b[name]));
}
