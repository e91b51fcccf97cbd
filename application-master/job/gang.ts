import { inGang } from '../../conf/role-conditions.ts';
import { counted } from '../../conf/values/quantities.ts';
import type { Member } from '../../contract/process/task-context.ts';
import { predecessorsOf } from './ending.ts';
import { asGeneration, type Generation, next } from './state/counters.ts';
import { type Gang, isOver, isReady, jobOf, LIMITS, type MachineState, type Task } from './state/job-state.ts';
import {
  describeRange,
  elasticRole,
  gangTasks,
  isGivenUp,
  isIndependentlyReplaceable,
  isInGracePeriod,
  isMember,
  memberTasks,
  missingTasks,
} from './state/membership.ts';
import { inRankOrder } from './state/ranks.ts';
import type { Transition } from './state/transition.ts';

export function freshGang(now: number): Gang {
  return {
    phase: 'forming',
    since: now,
    rounds: 0,
    returns: 0,
    notBefore: now,
    claimRevision: null,
    fruitless: 0,
    startedFrom: 0,
    members: [],
    incident: null,
    why: '',
    enoughSince: null,
    growths: 0,
    checkpointAt: null,
  };
}

export function unclaim(transition: Transition): void {
  transition.patchGang({ claimRevision: null, enoughSince: null });
  for (const task of gangTasks(transition.state)) {
    transition.update(task.slot, { rank: null });
  }
  transition.dirty = true;
}

/** Orders an executor to stop its program and to bind a port for the next generation. */
export function prepare(transition: Transition, slot: number): void {
  const { executor, container } = transition.task(slot);
  if (executor === null || container === null) {
    return;
  }
  if (executor.program !== null && executor.program.phase !== 'ended') {
    transition.recordTask('program-stopped', transition.task(slot), {
      generation: executor.program.generation,
      message: 'a new generation is being formed',
    });
  }
  transition.update(slot, { state: 'registered', exit: null });
  transition.updateExecutor(slot, { pendingExit: null });
  // A port that has not been used is valid for any generation.
  if (executor.program === null && executor.awaiting === null && executor.portFor === 0 && executor.port > 0) {
    return;
  }
  transition.updateExecutor(slot, {
    program: null,
    awaiting: { answer: 'ready', since: transition.now },
    lostRank: null,
    ending: false,
    stoppedSince: null,
  });
  if (executor.attached) {
    transition.act({ type: 'prepare', containerId: container.id, generation: next(transition.state.generation) });
  }
}

export function claimGeneration(transition: Transition): void {
  const members = chooseMembers(transition);
  if (members === null) {
    return;
  }
  inRankOrder(members).forEach((task, rank) => {
    transition.update(task.slot, { rank });
  });
  transition.patchGang({ claimRevision: transition.nextRevision });
  transition.dirty = true;
}

/**
 * Returns the next generation's members, or null if the gang must wait. Without an elastic role, all tasks must have containers. With an
 * elastic role, enough tasks must be ready, and no other task may be about to become ready.
 */
function chooseMembers(transition: Transition): Task[] | null {
  const { state } = transition;
  const tasks = gangTasks(state).filter((task) => !isGivenUp(task));
  const role = elasticRole(jobOf(state));
  if (role === null) {
    return tasks.every(({ container }) => container !== null) ? tasks : null;
  }
  const generation = next(state.generation);
  const since = missingTasks(state).length > 0 ? null : (transition.gang?.enoughSince ?? transition.now);
  if (since !== transition.gang?.enoughSince) {
    transition.patchGang({ enoughSince: since });
  }
  if (since === null) {
    return null;
  }
  const late = tasks.filter((task) => !isOver(task) && !isReady(task, generation));
  if (late.some((task) => isInGracePeriod(state, task))) {
    return null;
  }
  const waitMs = late.some(({ container }) => container !== null) ? LIMITS.arrivingMs : late.length > 0 ? LIMITS.moreMs : 0;
  return transition.now - since < waitMs ? null : tasks.filter((task) => isReady(task, generation));
}

export function startGeneration(transition: Transition): void {
  const generation = next(transition.state.generation);
  const members = memberTasks(transition.state);
  if (!members.every((task) => isReady(task, generation))) {
    return;
  }
  transition.patch({ generation });
  transition.patchGang({
    phase: 'started',
    rounds: 0,
    returns: 0,
    since: transition.now,
    claimRevision: null,
    enoughSince: null,
    incident: null,
    startedFrom: transition.state.training.checkpointStep,
    members: membersOf(transition.state),
  });
  const why = transition.gang?.why ?? '';
  transition.record('generation-started', {
    generation,
    message: `${describeMembers(transition.state, members)}${describeCheckpoint(transition.state, generation)}`,
    ...(why === '' ? {} : { reason: why }),
  });
  for (const task of members) {
    startMember(transition, task.slot);
  }
}

/** Describes where a restarted gang resumes. The checkpoint folder of a first generation may hold checkpoints that the job does not know. */
function describeCheckpoint({ training: { checkpointStep } }: MachineState, generation: number): string {
  if (generation === 1) {
    return '';
  }
  return checkpointStep === 0 ? ', no checkpoint yet' : `, newest checkpoint: step ${checkpointStep}`;
}

function describeMembers(state: MachineState, members: readonly Task[]): string {
  const servers = members.filter(({ role }) => role.servesParameters);
  const ranked = members.filter(({ rank }) => rank !== null);
  const role = elasticRole(jobOf(state));
  const share = role === null ? '' : ` (${ranked.filter((task) => task.role === role).length} of ${describeRange(role)} ${role.name}s)`;
  return `${counted(ranked.length, 'ranked task')}${share}${servers.length === 0 ? '' : `, ${counted(servers.length, 'parameter server')}`}`;
}

/**
 * In a parameter-server job, starts replacement workers in the running generation. A replacement starts only after the previous program
 * with the same rank has exited, because only one program per rank may push gradients.
 */
export function startReplacements(transition: Transition): void {
  const { gang, generation } = transition.state;
  if (gang?.phase !== 'started') {
    return;
  }
  for (const task of memberTasks(transition.state)) {
    const { container } = task;
    if (container === null || task.state !== 'registered' || !isIndependentlyReplaceable(jobOf(transition.state), task.role)) {
      continue;
    }
    const isSaved = transition.state.revisions.durable >= container.savedRevision;
    if (!isReady(task, generation) || !isSaved || predecessorsOf(transition.state, task).length > 0) {
      continue;
    }
    transition.patchGang({ members: membersOf(transition.state) });
    startMember(transition, task.slot);
  }
}

/** Starts each task outside the gang once its executor has registered. */
export function startUnranked(transition: Transition): void {
  for (const task of transition.state.tasks) {
    const { container, executor } = task;
    if (inGang(task.role) || task.state !== 'registered' || container === null || executor === null) {
      continue;
    }
    if (
      !executor.attached ||
      executor.program !== null ||
      transition.state.revisions.durable < container.savedRevision ||
      predecessorsOf(transition.state, task).length > 0
    ) {
      continue;
    }
    const generation = asGeneration(Math.max(1, transition.state.generation));
    markStarted(transition, task.slot, generation);
    transition.act({ type: 'start', containerId: container.id, generation, members: withAbsent(transition.state) });
  }
}

export function startMember(transition: Transition, slot: number): void {
  const { container } = transition.task(slot);
  const { gang, generation } = transition.state;
  if (container === null || gang === null) {
    return;
  }
  markStarted(transition, slot, generation);
  transition.act({ type: 'start', containerId: container.id, generation, members: gang.members });
}

function markStarted(transition: Transition, slot: number, generation: Generation): void {
  transition.update(slot, { generation, exit: null, startedAt: null });
  transition.updateExecutor(slot, {
    program: { generation, phase: 'starting' },
    awaiting: { answer: 'started', since: transition.now },
    portFor: generation,
    ranIn: generation,
    mayRun: true,
    lostRank: null,
    ending: false,
    stoppedSince: null,
  });
}

/**
 * Returns the member list for a task outside the gang. The list has the same tasks and ranks at any time, although the gang may still be
 * forming. A ranked task whose executor has not registered has no address.
 */
function withAbsent(state: MachineState): Member[] {
  const known = membersOf(state);
  const ranked = gangTasks(state).filter(({ role }) => role.kind === 'gang');
  const members = ranked.filter(({ rank }) => rank !== null);
  const expected = members.length > 0 ? members : ranked.filter(({ role, index }) => index < role.instances);
  return [
    ...inRankOrder(expected).map(({ role, index, executor }, rank): Member => {
      return { role: role.name, index, host: executor?.host ?? '', port: executor?.port ?? 0, taskRank: rank };
    }),
    ...known.filter(({ taskRank, role }) => taskRank === null && !ranked.some((task) => task.role.name === role)),
  ];
}

/** Returns the member list for start orders: first the ranked tasks in rank order, then all other registered tasks. */
export function membersOf(state: MachineState): Member[] {
  const known = state.tasks.flatMap((task): Member[] => {
    const { role, index, rank, executor } = task;
    // Exclude spare tasks and tasks that are waiting for the next generation, because programs do not connect to them.
    if (role.spare || (inGang(task.role) && !isMember(task))) {
      return [];
    }
    if (executor !== null) {
      return [{ role: role.name, index, host: executor.host, port: executor.port, taskRank: rank }];
    }
    // A worker that is being replaced counts toward the world size. It has no address, because programs do not connect to it.
    const isReplaced = rank !== null && isIndependentlyReplaceable(state.frozen.job, role);
    return isReplaced ? [{ role: role.name, index, host: '', port: 0, taskRank: rank }] : [];
  });
  const ranked = known.filter((member) => member.taskRank !== null).sort((a, b) => (a.taskRank ?? 0) - (b.taskRank ?? 0));
  return [...ranked, ...known.filter((member) => member.taskRank === null)];
}
