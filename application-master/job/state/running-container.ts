import type { Task } from './job-state.ts';

/**
 * The container in which a task's program runs. If there is none, `missing` says why: the `task` does not exist, the `program` is not
 * running, or the job's `state` is still being restored.
 */
export type RunningContainer = { readonly containerId: string } | { readonly missing: 'task' | 'program' | 'state'; readonly why: string };

/** Maximum number of tasks that the message to the user lists. */
const MOST_SHOWN = 20;

/** @param tasks null while an earlier attempt's state is being read */
export function runningContainer(tasks: readonly Task[] | null, role: string, index: number): RunningContainer {
  if (tasks === null) {
    return { missing: 'state', why: 'The job is being restored.' };
  }
  const task = tasks.find((each) => each.role.name === role && each.index === index);
  if (task === undefined) {
    const names = tasks.map((each) => `${each.role.name}:${each.index}`);
    const shown = names.length > MOST_SHOWN ? [...names.slice(0, MOST_SHOWN), '...'] : names;
    return { missing: 'task', why: `The job has no task ${role}:${index}. Its tasks: ${shown.join(', ')}.` };
  }
  return task.state === 'running' && task.container !== null
    ? { containerId: task.container.id }
    : { missing: 'program', why: `The program of ${role}:${index} is not running. The task's state is ${task.state}.` };
}
