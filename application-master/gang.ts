import { createHash } from 'node:crypto';
import type { Member } from '../training/task-context.ts';
import { giveBack } from './asks.ts';
import { isCompanion } from './companion.ts';
import { hasPredecessor } from './ending.ts';
import { decide } from './finish.ts';
import { type Gang, isOver, isReady, type JobState, jobOf, LIMITS, type Task } from './job-state.ts';
import { describeRange, elasticRole, gangTasks, inGang, isLoose, isMember, memberTasks, missingTasks } from './membership.ts';
import { inRankOrder } from './ranks.ts';
import { seconds } from './sentences.ts';
import type { Turn } from './turn.ts';
import { describeMissing } from './waiting.ts';

export function freshGang(now: number): Gang {
  return {
    phase: 'forming',
    since: now,
    rounds: 0,
    notBefore: now,
    claim: null,
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

/**
 * The running generation is over: its members end their programs and bind fresh ports, or are asked for anew.
 * `incidentUntil`: until then, members that fail are taken for victims of the failure that led here.
 */
export function newGeneration(turn: Turn, options: { incidentUntil: number | null; why: string }): void {
  const ended = turn.state.generation;
  // The next one says it again, when it comes to the same.
  turn.patch({ earlyEnd: null });
  turn.patchGang({
    phase: 'forming',
    since: turn.now,
    rounds: 0,
    notBefore: turn.now,
    members: [],
    incident: options.incidentUntil === null ? null : { generation: ended, until: options.incidentUntil },
    why: options.why,
  });
  unclaim(turn);
  for (const task of gangTasks(turn.state)) {
    turn.update(task.slot, { leaveAfter: null });
    if (task.executor !== null) prepare(turn, task.slot);
    else if (task.state === 'succeeded') {
      turn.update(task.slot, { state: 'requested', waitingSince: turn.now, notBefore: turn.now, exitCode: null });
    }
  }
}

/** Nobody has been chosen for the generation being formed. */
function unclaim(turn: Turn): void {
  turn.patchGang({ claim: null, enoughSince: null });
  for (const task of gangTasks(turn.state)) turn.update(task.slot, { rank: null });
  turn.dirty = true;
}

/** Orders an executor to end what runs and to bind a port for the generation being formed. */
export function prepare(turn: Turn, slot: number): void {
  const { executor, container } = turn.task(slot);
  if (executor === null || container === null) return;
  if (executor.program !== null && executor.program.phase !== 'ended')
    turn.recordTask('program-stopped', turn.task(slot), { generation: executor.program.generation, detail: 'a new generation is formed' });
  turn.update(slot, { state: 'registered', pendingExit: null, exitCode: null });
  // A port that no program has used is good for any generation.
  if (executor.program === null && executor.awaiting === null && executor.portFor === 0 && executor.port > 0) return;
  turn.updateExecutor(slot, {
    program: null,
    awaiting: { answer: 'ready', since: turn.now },
    lostRank: null,
    ending: false,
    stoppedSince: null,
  });
  if (executor.attached) turn.act({ type: 'prepare', containerId: container.id, generation: turn.state.generation + 1 });
}

/** Chooses the members as soon as it may, and starts them once all are ready and the snapshot that names them is durable. */
export function formGang(turn: Turn): void {
  if (turn.gang?.phase !== 'forming') return;
  const { claim } = turn.gang;
  if (claim === null) claimGeneration(turn);
  else if (memberTasks(turn.state).some((task) => task.container === null)) {
    unclaim(turn);
    claimGeneration(turn);
  } else if (turn.state.durable >= claim) startGeneration(turn);
}

function claimGeneration(turn: Turn): void {
  const members = chooseMembers(turn);
  if (members === null) return;
  inRankOrder(members).forEach((task, rank) => {
    turn.update(task.slot, { rank });
  });
  turn.patchGang({ claim: turn.state.revision + 1 });
  turn.dirty = true;
}

/** Everybody, as soon as all have containers. Of an elastic role those who are ready, once they are enough and no more are about to come. */
function chooseMembers(turn: Turn): Task[] | null {
  const { state } = turn;
  const tasks = gangTasks(state);
  const role = elasticRole(jobOf(state));
  if (role === null) return tasks.every(({ container }) => container !== null) ? tasks : null;
  const generation = state.generation + 1;
  const since = missingTasks(state).length > 0 ? null : (turn.gang?.enoughSince ?? turn.now);
  if (since !== turn.gang?.enoughSince) turn.patchGang({ enoughSince: since });
  if (since === null) return null;
  const late = tasks.filter((task) => !isOver(task) && !isReady(task, generation));
  const patience = late.some(({ container }) => container !== null) ? LIMITS.arrivingMs : late.length > 0 ? LIMITS.moreMs : 0;
  return turn.now - since < patience ? null : tasks.filter((task) => isReady(task, generation));
}

function startGeneration(turn: Turn): void {
  const generation = turn.state.generation + 1;
  const members = memberTasks(turn.state);
  if (!members.every((task) => isReady(task, generation))) return;
  turn.patch({ generation });
  turn.patchGang({
    phase: 'started',
    rounds: 0,
    since: turn.now,
    claim: null,
    enoughSince: null,
    incident: null,
    startedFrom: turn.state.checkpointStep,
    members: membersOf(turn.state),
  });
  turn.record('generation-started', { generation, detail: describeMembers(turn.state, members) });
  for (const task of members) startMember(turn, task.slot);
}

function describeMembers(state: JobState, members: readonly Task[]): string {
  const count = (of: readonly Task[], what: string) => `${of.length} ${what}${of.length === 1 ? '' : 's'}`;
  const servers = members.filter(({ role }) => role.servesParameters);
  const ranked = members.filter(({ rank }) => rank !== null);
  const role = elasticRole(jobOf(state));
  const share = role === null ? '' : ` (${ranked.filter((task) => task.role === role).length} of ${describeRange(role)} ${role.name}s)`;
  const why = state.gang === null || state.gang.why === '' ? '' : `; ${state.gang.why}`;
  return `${count(ranked, 'ranked task')}${share}${servers.length === 0 ? '' : `, ${count(servers, 'parameter server')}`}${why}`;
}

/**
 * A worker that was replaced joins the generation that its parameter servers have. Two of the same rank must not push: the program that
 * it follows is over.
 */
export function startReplacements(turn: Turn): void {
  const { gang, generation } = turn.state;
  if (gang?.phase !== 'started') return;
  for (const task of memberTasks(turn.state)) {
    const { executor } = task;
    if (task.state !== 'registered' || !isLoose(jobOf(turn.state), task.role) || executor === null) continue;
    if (!isReady(task, generation) || turn.state.durable < task.savedIn || hasPredecessor(turn, task)) continue;
    turn.patchGang({ members: membersOf(turn.state) });
    startMember(turn, task.slot);
  }
}

export function startMember(turn: Turn, slot: number): void {
  const { container } = turn.task(slot);
  const { gang, generation } = turn.state;
  if (container === null || gang === null) return;
  markStarted(turn, slot, generation);
  turn.act({ type: 'start', containerId: container.id, generation, members: gang.members });
}

export function markStarted(turn: Turn, slot: number, generation: number): void {
  turn.update(slot, { generation, exitCode: null });
  turn.updateExecutor(slot, {
    program: { generation, phase: 'starting' },
    awaiting: { answer: 'started', since: turn.now },
    portFor: generation,
    ranIn: generation,
    mayRun: true,
    lostRank: null,
    ending: false,
    stoppedSince: null,
  });
}

/** Who has said hello: the ranked in the order of their ranks, then the others. */
export function membersOf(state: JobState): Member[] {
  const known = state.tasks.flatMap((task): Member[] => {
    const { role, index, rank, executor } = task;
    // Nobody's program is to talk to a companion, or to one that waits for the next generation.
    if (isCompanion(state.frozen.job, role) || (inGang(task) && !isMember(task))) return [];
    if (executor !== null) return [{ role: role.name, index, host: executor.host, port: executor.port, rank }];
    // It counts in the size of the world while it is being replaced; nobody talks to it.
    return rank !== null && isLoose(state.frozen.job, role) ? [{ role: role.name, index, host: '', port: 0, rank }] : [];
  });
  const ranked = known.filter((member) => member.rank !== null).sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0));
  return [...ranked, ...known.filter((member) => member.rank === null)];
}

/**
 * A gang that did not come together in time gives back what it holds, so that two half gangs do not wait for each other for ever,
 * and asks again after a pause that differs from job to job.
 */
export function endRound(turn: Turn): void {
  const { gang, registration, result } = turn.state;
  const { timeoutMs } = jobOf(turn.state).gang;
  if (gang === null || gang.phase !== 'forming' || registration === null || result !== null) return;
  if (turn.now - Math.max(gang.since, gang.notBefore) < timeoutMs) return;
  const generation = turn.state.generation + 1;
  const missing = missingTasks(turn.state);
  // All are there: what is not there is the storage, and no task is to pay for that.
  if (missing.length === 0) {
    turn.patchGang({ since: turn.now });
    return;
  }
  const rounds = gang.rounds + 1;
  const sentence = describeMissing(turn.state, missing);
  turn.record('gang-timeout', { generation, detail: sentence });
  if (rounds >= LIMITS.rounds) {
    decide(turn, {
      state: 'FAILED',
      diagnostics: `The gang was not complete within ${seconds(timeoutMs)}, ${rounds} times in a row. ${sentence}`,
    });
    return;
  }
  for (const task of gangTasks(turn.state)) {
    if (isOver(task)) continue;
    if (task.container !== null && task.executor === null) {
      turn.update(task.slot, { failedNodes: [...turn.task(task.slot).failedNodes, task.container.node].slice(-LIMITS.notices) });
    }
    giveBack(turn, task, 'the gang did not come together in time');
  }
  turn.patchGang({ rounds, notBefore: turn.now + pause(turn.state, rounds) });
  unclaim(turn);
}

/** 5 to 15 % of the timeout for each round gone, by a throw of dice that the application's id decides. */
function pause(state: JobState, round: number): number {
  const dice = createHash('sha256').update(`${state.frozen.applicationId} ${round}`).digest().readUInt16BE() / 0xffff;
  return Math.ceil(jobOf(state).gang.timeoutMs * round * (0.05 + 0.1 * dice));
}
