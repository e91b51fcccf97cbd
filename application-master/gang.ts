import { createHash } from 'node:crypto';
import type { Member } from '../training/task-context.ts';
import { giveBack } from './asks.ts';
import { isCompanion } from './companion.ts';
import { decide } from './finish.ts';
import { isReady, type JobState, jobOf, LIMITS, type Task } from './job-state.ts';
import { seconds } from './sentences.ts';
import type { Turn } from './turn.ts';
import { describeMissing } from './waiting.ts';

/**
 * The running generation is over: its members end their programs and bind fresh ports, or are asked for anew.
 * `incidentUntil`: until then, members that fail are taken for victims of the failure that led here.
 */
export function newGeneration(turn: Turn, options: { incidentUntil: number | null }): void {
  const ended = turn.state.generation;
  turn.patchGang({
    phase: 'forming',
    since: turn.now,
    rounds: 0,
    notBefore: turn.now,
    claim: null,
    members: [],
    incident: options.incidentUntil === null ? null : { generation: ended, until: options.incidentUntil },
  });
  turn.dirty = true;
  for (const task of rankedTasks(turn.state)) {
    turn.update(task.slot, { leaveAfter: null });
    if (task.executor !== null) prepare(turn, task.slot);
    else if (task.state === 'succeeded') {
      turn.update(task.slot, { state: 'requested', waitingSince: turn.now, notBefore: turn.now, exitCode: null });
    }
  }
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
  turn.updateExecutor(slot, { program: null, awaiting: { answer: 'ready', since: turn.now }, lostRank: null, stoppedSince: null });
  if (executor.attached) turn.act({ type: 'prepare', containerId: container.id, generation: turn.state.generation + 1 });
}

/** Fixes the membership once all have containers, and starts it once all are ready and the snapshot that names them is durable. */
export function formGang(turn: Turn): void {
  const gang = turn.gang;
  if (gang === null || gang.phase !== 'forming') return;
  const members = rankedTasks(turn.state);
  if (members.some((task) => task.container === null)) return;
  if (gang.claim === null) {
    turn.patchGang({ claim: turn.state.revision + 1 });
    turn.dirty = true;
    return;
  }
  const generation = turn.state.generation + 1;
  if (turn.state.durable < gang.claim || !members.every((task) => isReady(task, generation))) return;
  turn.patch({ generation });
  turn.patchGang({
    phase: 'started',
    rounds: 0,
    since: turn.now,
    claim: null,
    incident: null,
    startedFrom: turn.state.checkpointStep,
    members: membersOf(turn.state),
  });
  turn.record('generation-started', { generation, detail: `${members.length} ranked tasks` });
  for (const task of members) startRanked(turn, task.slot);
}

export function startRanked(turn: Turn, slot: number): void {
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
    stoppedSince: null,
  });
}

/** Everybody who has said hello: the ranked in the order of their ranks, then the others. */
export function membersOf(state: JobState): Member[] {
  const known = state.tasks.flatMap((task): Member[] =>
    // Nobody's program is to talk to a companion.
    task.executor === null || isCompanion(state.frozen.job, task.role)
      ? []
      : [{ role: task.role.name, index: task.index, host: task.executor.host, port: task.executor.port, rank: task.rank }],
  );
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
  const tasks = rankedTasks(turn.state);
  const generation = turn.state.generation + 1;
  const missing = tasks.filter((task) => !isReady(task, generation));
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
  for (const task of tasks) {
    if (task.container !== null && task.executor === null) {
      turn.update(task.slot, { failedNodes: [...turn.task(task.slot).failedNodes, task.container.node].slice(-LIMITS.notices) });
    }
    giveBack(turn, task, 'the gang did not come together in time');
  }
  turn.patchGang({ rounds, claim: null, notBefore: turn.now + pause(turn.state, rounds) });
  turn.dirty = true;
}

/** 5 to 15 % of the timeout for each round gone, by a throw of dice that the application's id decides. */
function pause(state: JobState, round: number): number {
  const dice = createHash('sha256').update(`${state.frozen.applicationId} ${round}`).digest().readUInt16BE() / 0xffff;
  return Math.ceil(jobOf(state).gang.timeoutMs * round * (0.05 + 0.1 * dice));
}

export function rankedTasks(state: JobState): Task[] {
  return state.tasks.filter((task) => task.rank !== null);
}
