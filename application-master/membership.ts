import type { Job, Role } from '../conf/job.ts';
import { currentGeneration, isOver, isReady, type JobState, jobOf, type Task } from './job-state.ts';
import { isChief } from './ranks.ts';

// Who belongs to a generation: those who train and those who hold the weights. Of an elastic role as many as there are, but never fewer
// than the job says.

/** It runs in generations. */
export function inGang({ role }: { readonly role: Role }): boolean {
  return role.ranked || role.servesParameters;
}

/** The newest generation, claimed or started, has it. */
export function isMember(task: Task): boolean {
  return task.role.servesParameters || task.rank !== null;
}

export function gangTasks(state: JobState): Task[] {
  return state.tasks.filter(inGang);
}

export function memberTasks(state: JobState): Task[] {
  return state.tasks.filter(isMember);
}

/** With parameter servers, nobody talks to a worker: one that fails is replaced without the others noticing. */
export function isLoose(job: Job, role: Role): boolean {
  return role.ranked && job.roles.some(({ servesParameters }) => servesParameters);
}

/** A failure of it is its own affair: the generation goes on, if there is one. */
export function restartsAlone(state: JobState, task: Task): boolean {
  if (!inGang(task)) return true;
  if (state.gang?.phase === 'forming') return false;
  return !isMember(task) || isLoose(jobOf(state), task.role);
}

export function isElastic(role: Role): boolean {
  return role.maxInstances > role.instances;
}

/** `2..8` */
export function describeRange(role: Role): string {
  return `${role.instances}..${role.maxInstances}`;
}

/** A job has one at most. */
export function elasticRole(job: Job): Role | null {
  return job.roles.find(isElastic) ?? null;
}

/** Of an elastic role, those without a container that a generation cannot be formed without: which ones does not matter, but for the chief. */
export function lackingTasks(state: JobState, eligible: (task: Task) => boolean = () => true): Task[] {
  const role = elasticRole(jobOf(state));
  if (role === null) return [];
  const tasks = state.tasks.filter((task) => task.role === role && !isOver(task));
  const needed = role.instances - tasks.filter(({ container }) => container !== null).length;
  const lacking: Task[] = [];
  for (const task of tasks) {
    if (task.container === null && eligible(task) && (isChief(task) || lacking.length < needed)) lacking.push(task);
  }
  return lacking;
}

/** Those without whom the job does not go on well. */
export function awaitedTasks(state: JobState): Task[] {
  const forming = state.gang?.phase === 'forming';
  const lacking = new Set(forming ? lackingTasks(state) : []);
  return state.tasks.filter((task) => {
    if (!isElastic(task.role)) return true;
    return forming ? task.container !== null || lacking.has(task) : isMember(task);
  });
}

/** The job goes on when this one can never come back: enough others can be there. */
export function isExpendable(state: JobState, task: Task): boolean {
  if (!isElastic(task.role) || isChief(task)) return false;
  const others = state.tasks.filter((each) => each.role === task.role && each !== task && each.state !== 'failed' && each.state !== 'lost');
  return others.length >= task.role.instances;
}

/** Those that the generation being formed cannot start without, and that are not ready. */
export function missingTasks(state: JobState): Task[] {
  const generation = currentGeneration(state);
  const late = gangTasks(state).filter((task) => !isOver(task) && !isReady(task, generation));
  const role = elasticRole(jobOf(state));
  if (role === null) return late;
  const needed = role.instances - state.tasks.filter((task) => task.role === role && isReady(task, generation)).length;
  const missing: Task[] = [];
  let elastic = 0;
  for (const task of late) {
    if (task.role !== role) missing.push(task);
    else if (isChief(task) || elastic < needed) {
      missing.push(task);
      elastic++;
    }
  }
  return missing;
}
