import type { JobResult } from '../conf/status.ts';
import { detach } from './ending.ts';
import { isOver, LIMITS } from './job-state.ts';
import { isChief } from './ranks.ts';
import type { Turn } from './turn.ts';

/** The first word is the last: what comes after a decision does not change it. */
export function decide(turn: Turn, result: JobResult): void {
  if (turn.state.result !== null) return;
  turn.patch({ result, decidedAt: turn.now });
  turn.dirty = true;
  const reason =
    result.state === 'SUCCEEDED' ? 'the job has succeeded' : result.state === 'KILLED' ? 'the job is being killed' : 'the job has failed';
  for (const task of turn.state.tasks) {
    if (task.container !== null) detach(turn, task.slot, 'drain', reason);
    if (!isOver(task)) turn.update(task.slot, { state: 'stopped' });
  }
}

/** All tracked tasks, or the chief alone, as the job says. */
export function decideSuccess(turn: Turn): void {
  const { tasks, frozen } = turn.state;
  const deciding = frozen.job.success === 'chief' ? tasks.filter(isChief) : tasks.filter((task) => task.role.tracking === 'tracked');
  if (deciding.length > 0 && deciding.every((task) => task.state === 'succeeded')) decide(turn, { state: 'SUCCEEDED', diagnostics: '' });
}

/** Once the orders to stop are out, and the programs that were told to end have had a moment for it. */
export function finish(turn: Turn): void {
  const { result, finished, registration, ending, decidedAt } = turn.state;
  if (result === null || finished || registration === null) return;
  const draining = [...ending.values()].filter((each) => each.drains);
  if (draining.length > 0 && turn.now < decidedAt + LIMITS.drainMs) return;
  for (const each of draining) turn.act({ type: 'stop-container', containerId: each.containerId });
  turn.patch({ finished: true });
  turn.record('job-finished', { detail: result.diagnostics === '' ? result.state : `${result.state}: ${result.diagnostics}` });
  turn.act({ type: 'finish', result });
}
