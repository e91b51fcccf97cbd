import type { Usage } from '../conf/status.ts';
import { detach, hasPredecessor, stopStranger } from './ending.ts';
import type { Event, ProgramExit, Progress } from './events.ts';
import { failTask, isLastStraw } from './failures.ts';
import { markStarted, membersOf, startMember } from './gang.ts';
import { currentGeneration, type Executor, jobOf, LIMITS, type Task } from './job-state.ts';
import { inGang, isLoose, isMember } from './membership.ts';
import { graceMs } from './pace.ts';
import { describeExit, oneLine } from './sentences.ts';
import type { Turn } from './turn.ts';

// What executors say. Every function first finds the task that the container still belongs to; who belongs to none is told to end.

/** Of a core, or of a GPU: what a program that waits stays below. */
const BUSY_SHARE = 0.05;

type Said<Type extends Event['type']> = Extract<Event, { type: Type }>;

export function hello(turn: Turn, event: Said<'hello'>): void {
  const slot = turn.state.byContainer.get(event.containerId);
  if (slot === undefined) {
    turn.act({ type: 'stop-program', containerId: event.containerId, reason: 'this container is no longer part of the job' });
    if (!turn.state.ending.has(event.containerId)) stopStranger(turn, event.containerId, event.role);
    return;
  }
  const task = turn.task(slot);
  if (task.role.name !== event.role || task.index !== event.index) {
    turn.act({ type: 'stop-program', containerId: event.containerId, reason: `this container is for ${task.role.name}:${task.index}` });
    return;
  }
  const before = task.executor;
  const executor: Executor = {
    stoppedSince: null,
    awaiting: null,
    program: null,
    ranIn: 0,
    mayRun: false,
    lostRank: null,
    ending: false,
    ...before,
    attached: true,
    host: event.host,
    port: event.port,
    portFor: event.generation,
    lastHeard: turn.now,
  };
  turn.update(slot, { executor, reattachBy: null, state: task.state === 'launching' ? 'registered' : task.state });
  if (before === null) turn.recordTask('executor-registered', turn.task(slot), { detail: `${event.host}:${event.port}, ${event.phase}` });
  if (turn.state.result !== null) return;
  if (!inGang(task)) helloUnranked(turn, slot, event);
  else if (turn.gang?.phase === 'forming') helloForming(turn, slot, event, before);
  else if (!isMember(task)) helloWaiting(turn, slot, event, before);
  else if (turn.gang?.phase === 'started') helloStarted(turn, slot, event, before);
  else helloReattaching(turn, slot, event);
}

function helloForming(turn: Turn, slot: number, event: Said<'hello'>, before: Executor | null): void {
  makeReady(turn, slot, event, before, currentGeneration(turn.state));
}

/** It is no member of the generation that runs, but will be of the next. */
function helloWaiting(turn: Turn, slot: number, event: Said<'hello'>, before: Executor | null): void {
  makeReady(turn, slot, event, before, turn.state.generation + 1);
}

function makeReady(turn: Turn, slot: number, event: Said<'hello'>, before: Executor | null, generation: number): void {
  const unused = event.generation === 0 && (before?.ranIn ?? 0) === 0;
  if (event.phase === 'idle' && event.port > 0 && (unused || event.generation === generation)) {
    turn.updateExecutor(slot, { program: null, awaiting: null, mayRun: false });
    return;
  }
  turn.updateExecutor(slot, {
    program: null,
    awaiting: { answer: 'ready', since: before?.awaiting?.since ?? turn.now },
    ranIn: event.phase === 'idle' ? (before?.ranIn ?? 0) : event.generation,
    mayRun: event.phase === 'running',
  });
  turn.update(slot, { state: 'registered' });
  turn.act({ type: 'prepare', containerId: event.containerId, generation });
}

function helloStarted(turn: Turn, slot: number, event: Said<'hello'>, before: Executor | null): void {
  const { generation } = turn.state;
  const program = before?.program ?? null;
  if (event.phase !== 'idle' && event.generation === generation) {
    nowRunning(turn, slot, generation);
    if (event.phase === 'ended') ended(turn, slot, event);
  } else if (event.phase === 'idle' && program?.phase === 'starting' && before?.port === event.port) {
    // The order to start went down with the old stream.
    startMember(turn, slot);
  } else if (isLoose(jobOf(turn.state), turn.task(slot).role) && event.phase === 'idle' && program === null) {
    // A replacement: it is started when the one before it is over.
    if (event.generation !== 0 && event.generation !== generation) failTask(turn, slot, { kind: 'inconsistent' });
  } else failTask(turn, slot, { kind: 'inconsistent' });
}

function helloReattaching(turn: Turn, slot: number, event: Said<'hello'>): void {
  if (event.phase === 'idle') return;
  turn.updateExecutor(slot, {
    program: { generation: event.generation, phase: 'running' },
    ranIn: event.generation,
    mayRun: event.phase === 'running',
  });
  turn.update(slot, { generation: event.generation, state: 'running' });
  if (event.phase === 'ended' && event.generation === turn.state.generation) ended(turn, slot, event);
}

function helloUnranked(turn: Turn, slot: number, event: Said<'hello'>): void {
  const program = turn.task(slot).executor?.program ?? null;
  if (event.phase === 'idle') {
    // The order to start went down with the old stream, or was never given.
    if (program === null || program.phase === 'starting') turn.updateExecutor(slot, { program: null, awaiting: null, mayRun: false });
    else failTask(turn, slot, { kind: 'inconsistent' });
    return;
  }
  if (program?.phase === 'ended') return;
  nowRunning(turn, slot, event.generation);
  if (event.phase === 'ended') ended(turn, slot, event);
}

function ended(turn: Turn, slot: number, event: Said<'hello'>): void {
  judgeExit(turn, slot, event.exit ?? { generation: event.generation, code: -1, signal: '', stderrTail: '' });
}

export function ready(turn: Turn, event: Said<'ready'>): void {
  const slot = heard(turn, event.containerId);
  if (slot === null) return;
  const task = turn.task(slot);
  if (!inGang(task)) return;
  if (turn.gang?.phase === 'forming' ? event.generation !== currentGeneration(turn.state) : isMember(task)) return;
  turn.updateExecutor(slot, { program: null, awaiting: null, mayRun: false, port: event.port, portFor: event.generation });
}

export function started(turn: Turn, event: Said<'started'>): void {
  const slot = heard(turn, event.containerId);
  if (slot !== null && turn.task(slot).executor?.program?.generation === event.generation) nowRunning(turn, slot, event.generation);
}

export function heartbeat(turn: Turn, event: Said<'heartbeat'>): void {
  const slot = heard(turn, event.containerId);
  if (slot === null) return;
  const { executor } = turn.task(slot);
  const { usage, progress } = event;
  if ((usage !== null && isBusy(usage)) || progress !== null) turn.patch({ busyAt: turn.now });
  if (usage !== null) {
    turn.update(slot, { usage });
    const stoppedSince = usage.stopped ? (executor?.stoppedSince ?? turn.now) : null;
    if (stoppedSince !== executor?.stoppedSince) turn.updateExecutor(slot, { stoppedSince });
  }
  if (executor === null || executor.program?.generation !== event.generation) return;
  if (progress === null) return;
  const task = turn.task(slot);
  const metrics = Object.entries(progress.metrics).filter(([, value]) => Number.isFinite(value));
  turn.update(slot, {
    step: progress.step,
    metrics: Object.fromEntries([...Object.entries(task.metrics), ...metrics].slice(-LIMITS.metrics)),
  });
  if (progress.checkpointStep > 0 && progress.checkpointStep !== turn.state.checkpointStep) {
    turn.patch({ checkpointStep: progress.checkpointStep });
    turn.checkpointed = true;
  }
  for (const text of progress.notices.slice(0, LIMITS.notices)) {
    const notice = `${turn.describe(slot)}: ${oneLine(text)}`;
    turn.patch({ notices: [...turn.state.notices, notice].slice(-LIMITS.notices) });
    turn.recordTask('notice', task, { generation: event.generation, detail: oneLine(text) });
  }
  if (progress.ending) turn.updateExecutor(slot, { ending: true });
  if (progress.earlyEnd !== null) noteEarlyEnd(turn, task, progress.earlyEnd);
  const { lostRank } = progress;
  if (lostRank !== null && task.rank !== null && lostRank !== task.rank && executor.lostRank === null) {
    turn.updateExecutor(slot, { lostRank: { rank: lostRank, since: turn.now } });
    turn.recordTask('peer-lost', task, { generation: event.generation, detail: `rank ${lostRank}` });
  }
}

function noteEarlyEnd(turn: Turn, task: Task, { step, reason }: NonNullable<Progress['earlyEnd']>): void {
  const earlyEnd = `stopped early at step ${step}: ${oneLine(reason)}`;
  if (earlyEnd === turn.state.earlyEnd) return;
  turn.patch({ earlyEnd });
  // The chief may be gone when a second attempt of the ApplicationMaster gives the job's last word.
  turn.dirty = true;
  turn.recordTask('early-end', task, { detail: earlyEnd });
}

/** More than a program that only waits and says so now and then. */
function isBusy({ cpuCores, gpus }: Usage): boolean {
  return cpuCores >= BUSY_SHARE || gpus.some(({ utilization }) => utilization >= BUSY_SHARE);
}

export function exited(turn: Turn, event: Said<'exited'>): void {
  const slot = heard(turn, event.containerId);
  if (slot !== null) judgeExit(turn, slot, event.exit);
}

export function streamLost(turn: Turn, event: Said<'stream-lost'>): void {
  const slot = turn.state.byContainer.get(event.containerId);
  // Only silence counts: the executor has as long to come back as it may be silent.
  if (slot !== undefined) turn.updateExecutor(slot, { attached: false });
}

/** Starts unranked tasks as soon as they are there: they need no ring, and one that fails at once is better seen early. */
export function startUnranked(turn: Turn): void {
  for (const task of turn.state.tasks) {
    const { container, executor } = task;
    if (inGang(task) || task.state !== 'registered' || container === null || executor === null) continue;
    if (!executor.attached || executor.program !== null || turn.state.durable < task.savedIn || hasPredecessor(turn, task)) continue;
    const generation = Math.max(1, turn.state.generation);
    markStarted(turn, task.slot, generation);
    turn.act({ type: 'start', containerId: container.id, generation, members: membersOf(turn.state) });
  }
}

function judgeExit(turn: Turn, slot: number, exit: ProgramExit): void {
  const task = turn.task(slot);
  const program = task.executor?.program ?? null;
  // Of an older generation, or said before.
  if (program === null || program.phase === 'ended' || program.generation !== exit.generation) return;
  if (inGang(task) && exit.generation !== turn.state.generation) return;
  turn.updateExecutor(slot, { program: { ...program, phase: 'ended' }, awaiting: null, mayRun: false, stoppedSince: null });
  if (turn.state.result !== null) return;
  turn.recordTask('program-ended', task, { generation: exit.generation, detail: describeExit(exit) });
  if (exit.code === 0 && exit.signal === '') succeed(turn, slot);
  else {
    const until = worthWaiting(turn, turn.task(slot), exit);
    if (until > turn.now) turn.update(slot, { pendingExit: { exit, until }, exitCode: exit.code });
    else failTask(turn, slot, { kind: 'program', exit });
  }
}

/** Until when the cause of a failed exit may show itself elsewhere. */
function worthWaiting(turn: Turn, task: Task, exit: ProgramExit): number {
  const lostRank = task.executor?.lostRank ?? null;
  // Not all of the generation are back: the one that it lost may be among those.
  if (lostRank !== null && turn.gang?.phase === 'reattaching') return Number.MAX_SAFE_INTEGER;
  if (lostRank !== null) return lostRank.since + graceMs(jobOf(turn.state));
  return exit.code === -1 && isLastStraw(turn.state, task) ? turn.now + LIMITS.truthMs : turn.now;
}

/**
 * Its executor stays until the success is saved: a second attempt that finds neither executor nor note of it would take it for lost.
 */
function succeed(turn: Turn, slot: number): void {
  turn.update(slot, { state: 'succeeded', exitCode: 0, leaveAfter: turn.state.revision + 1 });
  turn.dirty = true;
}

export function letLeave(turn: Turn): void {
  for (const { slot, container, leaveAfter } of turn.state.tasks) {
    if (container !== null && leaveAfter !== null && leaveAfter <= turn.state.durable)
      detach(turn, slot, 'leave', 'its program has succeeded');
  }
}

function nowRunning(turn: Turn, slot: number, generation: number): void {
  const { program } = turn.task(slot).executor ?? { program: null };
  if (program?.phase === 'ended' || (program?.phase === 'running' && program.generation === generation)) return;
  turn.updateExecutor(slot, { program: { generation, phase: 'running' }, awaiting: null, ranIn: generation, mayRun: true });
  turn.update(slot, { state: 'running', generation, unstarted: 0, rounds: 0 });
  turn.recordTask('program-started', turn.task(slot), { generation });
}

/** The slot of a container that says something, and a note that it was heard. */
function heard(turn: Turn, containerId: string): number | null {
  const slot = turn.state.byContainer.get(containerId);
  if (slot === undefined || turn.task(slot).executor === null) return null;
  turn.updateExecutor(slot, { lastHeard: turn.now, attached: true });
  return slot;
}
