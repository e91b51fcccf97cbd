import type { Role } from '../../conf/job.ts';
import { inGang } from '../../conf/role-conditions.ts';
import { describeFailure } from '../../conf/status/event-text.ts';
import { counted } from '../../conf/values/quantities.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import { predecessorsOf } from './ending.ts';
import { describeMb, oneLine } from './state/diagnostics.ts';
import { type MachineState, nameOf, type Task } from './state/job-state.ts';
import { awaitedTasks } from './state/membership.ts';

export const GPU = 'yarn.io/gpu';
const MOST_NAMED = 5;

/** Returns the resources of a role's container, keyed by YARN's resource names. */
export function askedResources(role: Role): Record<string, number> {
  const { memoryMb, vcores, gpus, other } = role.resources;
  const counted = { 'memory-mb': memoryMb, vcores, ...(gpus > 0 ? { [GPU]: gpus } : {}) };
  // The first `counted` puts these keys first. The second `counted` prevents `other` from overwriting their values.
  return { ...counted, ...other, ...counted };
}

/**
 * Explains why this cluster can never satisfy the role's request, and what the user can do. Returns null if the cluster can satisfy the
 * request.
 */
export function impossibleAsk(state: MachineState, role: Role): string | null {
  const registration = state.cluster.registration;
  if (registration === null) {
    return null;
  }
  const known = new Set(['memory-mb', 'vcores', ...registration.resourceTypes, ...Object.keys(registration.maximum)]);
  for (const [name, amount] of Object.entries(askedResources(role))) {
    if (amount <= 0) {
      continue;
    }
    const key = name === 'memory-mb' ? 'memory' : name === GPU ? 'gpus' : name;
    const setting = `roles.${role.name}.resources.${key}`;
    if (!known.has(name)) {
      return (
        `Role ${role.name} requests ${amount} ${name}, a resource type that this cluster does not have (it has ${[...known].join(', ')}). ` +
        `Remove ${setting}, or ask the cluster admin to set up ${name}.`
      );
    }
    const maximum = registration.maximum[name];
    if (maximum !== undefined && amount > maximum) {
      return (
        `Role ${role.name} requests containers with ${describeAmount(name, amount)}, but the cluster's largest container has ${describeAmount(name, maximum)}. ` +
        `Lower ${setting}, or ask the cluster admin for a larger maximum.`
      );
    }
  }
  return null;
}

/** Explains why tasks are missing, in one sentence per reason. */
export function describeMissing(state: MachineState, missing: readonly Task[]): string {
  const reasons = new Map<string, Task[]>();
  for (const task of missing) {
    const reason = reasonOf(state, task);
    reasons.set(reason, [...(reasons.get(reason) ?? []), task]);
  }
  return [...reasons].map(([reason, tasks]) => `${list(tasks)} ${reason}.`).join(' ');
}

function reasonOf(state: MachineState, task: Task): string {
  const { container, executor } = task;
  if (container !== null && executor === null) {
    return `did not report from ${container.node} after the container started (see: tony-ts logs ${state.frozen.jobId} ${nameOf(task)})`;
  }
  if (container !== null && executor !== null) {
    return executor.attached ? `is not ready on ${container.node}` : `lost its connection to the ApplicationMaster on ${container.node}`;
  }
  const refusal = state.requests.refusals.get(task.role.name);
  if (refusal !== undefined) {
    return `got no container, because the ResourceManager rejects the request: ${oneLine(refusal)}`;
  }
  const launch = task.failures.launch === null ? '' : `; before that, ${oneLine(task.failures.launch)}`;
  if (task.wait.notBefore > state.now) {
    return `pauses after its failure, and requests its next container ${inTime(task.wait.notBefore - state.now)}${launch}`;
  }
  return `got no container (${lackOf(state, task.role)})${launch}`;
}

/** Explains why a role has no container. Names only causes that the ResourceManager's answers or the job's own requests prove. */
function lackOf(state: MachineState, role: Role): string {
  const asked = askedResources(role);
  const ask = `each requests ${describeAll(asked)}${role.nodeLabel === null ? '' : ` on nodes labelled ${role.nodeLabel}`}`;
  const headroom = state.cluster.headroom;
  const queue = state.cluster.registration === null ? 'the queue' : `queue ${state.cluster.registration.queue}`;
  const short = Object.keys(asked).filter((name) => (headroom[name] ?? Number.POSITIVE_INFINITY) < (asked[name] ?? 0));
  const ofGang = state.tasks.some((task) => task.role === role && inGang(task.role)) ? gangShortage(state) : [];
  const lacking = short.length > 0 ? short : ofGang;
  if (lacking.length > 0) {
    const room = describeAll(Object.fromEntries(lacking.map((name) => [name, Math.max(0, headroom[name] ?? 0)])));
    return `${ask}; ${queue} has too little room left${short.length > 0 ? '' : ' for all tasks that start together'}: ${room}`;
  }
  const avoided = state.requests.asks.get(role.name)?.excludedNodes ?? [];
  if (avoided.length > 0) {
    return `${ask}; the job does not use ${firstNames(avoided, MOST_NAMED)} for now, because role ${role.name} failed there repeatedly`;
  }
  return `${ask}; ${queue} has this much left in total, but YARN has not allocated it on any node`;
}

/** Returns the resources of which the headroom, as the ResourceManager reports it, does not cover all requests of the gang. */
export function gangShortage(state: MachineState): string[] {
  const { headroom, registration } = state.cluster;
  const tasks = awaitedTasks(state).filter((task) => inGang(task.role) && task.container === null);
  return Object.entries(headroom).flatMap(([name, free]) => {
    const isCounted = name === 'memory-mb' || registration?.countsAll === true;
    const wanted = tasks.reduce((sum, { role }) => sum + (askedResources(role)[name] ?? 0), 0);
    return isCounted && wanted > free ? [name] : [];
  });
}

function inTime(ms: number): string {
  return `in ${Math.ceil(ms / 1000)} s`;
}

/** Explains that the gang pauses after it has returned its containers. Returns an empty string if it does not pause. */
export function describeGangPause({ gang, now }: MachineState): string {
  if (gang?.phase !== 'forming' || gang.returns === 0 || gang.notBefore <= now) {
    return '';
  }
  return `The job leaves the room to others, and requests all containers again ${inTime(gang.notBefore - now)} or when enough is free.`;
}

function describeAll(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .map(([name, amount]) => describeAmount(name, amount))
    .join(', ');
}

function describeAmount(name: string, amount: number): string {
  if (name === 'memory-mb') {
    return `${describeMb(amount)} of memory`;
  }
  if (name === 'vcores') {
    return counted(amount, 'vcore');
  }
  return `${amount} ${name}`;
}

/** Formats tasks as ranges, for example `worker:0-6, worker:9, ps:1`. */
function list(tasks: readonly Task[]): string {
  const runs: { first: Task; last: Task }[] = [];
  for (const task of tasks) {
    const run = runs.at(-1);
    if (run !== undefined && run.last.role === task.role && run.last.index + 1 === task.index) {
      run.last = task;
    } else {
      runs.push({ first: task, last: task });
    }
  }
  const names = runs.map(({ first, last }) => (first === last ? nameOf(first) : `${nameOf(first)}-${last.index}`));
  return names.length <= 10 ? names.join(', ') : `${names.slice(0, 10).join(', ')} and others (${tasks.length} in total)`;
}

/** Describes for which tasks the job is waiting. A task whose executor has not connected yet is described as starting. */
export function describeWait(state: MachineState, missing: readonly Task[]): string {
  const starting = missing.filter((task) => task.container !== null && task.executor === null);
  const others = missing.filter((task) => !starting.includes(task));
  const sentences: string[] = [];
  if (others.length > 0) {
    sentences.push(describeMissing(state, others));
  }
  if (starting.length > 0) {
    sentences.push(`${list(starting)} ${starting.length === 1 ? 'is' : 'are'} starting.`);
  }
  return sentences.join(' ');
}

/** Describes the task's newest failure. Returns an empty string if the task has not failed. */
export function describeNewestFailure({ failures: { newest }, role }: Task): string {
  return newest === null ? '' : describeFailure(newest, role.name);
}

/** Explains that tasks that are ready must wait until their previous programs have exited. Returns one sentence per node. */
export function describePredecessors(state: MachineState, tasks: readonly Task[]): string[] {
  const waits = new Map<string, { readonly tasks: Set<Task>; attached: boolean }>();
  for (const task of tasks) {
    for (const { node, attached } of predecessorsOf(state, task)) {
      const wait = waits.get(node) ?? { tasks: new Set(), attached: true };
      wait.tasks.add(task);
      waits.set(node, { ...wait, attached: wait.attached && attached });
    }
  }
  return [...waits].map(([node, { tasks, attached }]) => {
    const one = tasks.size === 1;
    const where = node === '' ? '' : ` on ${node}`;
    const programs = `${one ? 'its' : 'their'} previous program${one ? '' : 's'}${where}`;
    const subject = `${list([...tasks])} ${one ? 'waits' : 'wait'} until ${programs} ${one ? 'has' : 'have'} ended`;
    return attached
      ? `${subject}; the previous ${one ? 'executor has' : 'executors have'} been ordered to stop.`
      : `${subject}; the previous ${one ? 'executor is' : 'executors are'} not reachable.`;
  });
}

/** Returns the time at which the last unreachable predecessor of the tasks has ended, or null if all predecessors are reachable. */
export function predecessorsEndAt(state: MachineState, tasks: readonly Task[]): number | null {
  const ends = tasks.flatMap((task) => predecessorsOf(state, task).flatMap(({ attached, until }) => (attached ? [] : until)));
  return ends.length === 0 ? null : Math.max(...ends);
}
