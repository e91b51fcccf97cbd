import type { JobStatus, TaskStatus } from '../conf/status.ts';

/** What a person or a program that follows a job is told, one after the other. */
export type JobEvent =
  | { readonly type: 'state'; readonly state: string; readonly message: string; readonly generation: number }
  | {
      readonly type: 'task';
      readonly role: string;
      readonly index: number;
      readonly state: TaskStatus['state'];
      readonly generation: number;
      readonly attempts: number;
      readonly node: string | null;
      readonly exitCode: number | null;
      readonly failure: string | null;
    }
  | { readonly type: 'metrics'; readonly step: number; readonly metrics: Readonly<Record<string, number>> }
  | { readonly type: 'checkpoint'; readonly step: number }
  | { readonly type: 'notice'; readonly message: string };

/** What changed from one look at a job to the next; `before` is null at the first. */
export function changes(before: JobStatus | null, after: JobStatus): JobEvent[] {
  const events: JobEvent[] = [];
  if (before?.state !== after.state || timeless(before.message) !== timeless(after.message)) {
    events.push({ type: 'state', state: after.state, message: after.message, generation: after.generations });
  }
  const known = new Map(before?.tasks.map((task) => [`${task.role}:${task.index}`, task]));
  for (const task of after.tasks) {
    const was = known.get(`${task.role}:${task.index}`);
    if (was?.state === task.state && was.generation === task.generation && was.attempts === task.attempts) continue;
    const { role, index, state, generation, attempts, node, exitCode, failure } = task;
    events.push({ type: 'task', role, index, state, generation, attempts, node, exitCode, failure });
  }
  // The list of notices is bounded: a new one may have pushed out the oldest.
  for (const message of after.notices.slice(overlap(before?.notices ?? [], after.notices))) events.push({ type: 'notice', message });
  if (after.checkpointStep !== (before?.checkpointStep ?? 0)) events.push({ type: 'checkpoint', step: after.checkpointStep });
  if (after.step !== (before?.step ?? 0) || differ(before?.metrics ?? {}, after.metrics)) {
    events.push({ type: 'metrics', step: after.step, metrics: after.metrics });
  }
  return events;
}

/** A sentence that only counts on, such as `waiting for 12 s`, tells nothing new. */
function timeless(message: string): string {
  return message.replace(/(?:\b\d+(?:\.\d+)? (?:ms|s|min|h)\b ?)+/g, '');
}

/** How many of the first of `after` are the last of `before`. */
function overlap(before: readonly string[], after: readonly string[]): number {
  for (let length = Math.min(before.length, after.length); length > 0; length--) {
    if (after.slice(0, length).every((message, at) => message === before[before.length - length + at])) return length;
  }
  return 0;
}

function differ(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>): boolean {
  const names = Object.keys(b);
  return names.length !== Object.keys(a).length || names.some((name) => !Object.is(a[name], b[name]));
}
