import { inGang } from '../../conf/role-conditions.ts';
import { describeEarlyEnd } from '../../conf/status/early-end.ts';
import { isSignalled } from '../../conf/status/program-signal.ts';
import type { Usage } from '../../conf/status/status.ts';
import { greetUnassigned, noteLeft, noteStreamLost, recordUnassigned } from './ending.ts';
import { isLastStraw } from './first-failure.ts';
import { startMember } from './gang.ts';
import { failTask, settleExits } from './recovery.ts';
import { asGeneration, type Generation, next } from './state/counters.ts';
import { oneLine, programEnd } from './state/diagnostics.ts';
import type { EventFromExecutor, ProgramExit, Progress } from './state/events.ts';
import { hear } from './state/executor-clock.ts';
import { currentGeneration, isOver, jobOf, LIMITS, nameOf, type Task, type TaskExecutor, type TaskNotice } from './state/job-state.ts';
import { isIndependentlyReplaceable, isInGracePeriod, isMember, memberTasks, peerNumber } from './state/membership.ts';
import { incidentMs } from './state/timeouts.ts';
import type { Transition } from './state/transition.ts';

// Handlers for messages from executors. A handler first finds the task to which the container is assigned. A container without a task
// receives a stop order.

/** A program counts as busy if it uses at least this fraction of a CPU core or GPU. */
const BUSY_SHARE = 0.05;

type Said<Type extends EventFromExecutor['type']> = Extract<EventFromExecutor, { type: Type }>;

export function heardFromExecutor(transition: Transition, event: EventFromExecutor): void {
  switch (event.type) {
    case 'hello':
      hello(transition, event);
      break;
    case 'ready':
      ready(transition, event);
      break;
    case 'started':
      started(transition, event);
      break;
    case 'heartbeat':
      heartbeat(transition, event);
      break;
    case 'exited':
      exited(transition, event);
      break;
    case 'stream-lost':
      streamLost(transition, event);
      break;
    case 'left':
      // This message matters only for containers without a task, because the cluster reports the exits of all other containers.
      noteLeft(transition, event.containerId);
      break;
    default:
      event satisfies never;
  }
}

function hello(transition: Transition, event: Said<'hello'>): void {
  const slot = transition.state.byContainer.get(event.containerId);
  if (slot === undefined) {
    greetUnassigned(transition, event);
    return;
  }
  const task = transition.task(slot);
  if (task.role.name !== event.role || task.index !== event.index) {
    transition.act({
      type: 'stop-program',
      containerId: event.containerId,
      reason: `this container is assigned to ${task.role.name}:${task.index}`,
      atOnce: true,
    });
    return;
  }
  const before = task.executor;
  const executor: TaskExecutor = {
    stoppedSince: null,
    awaiting: null,
    program: null,
    ranIn: asGeneration(0),
    mayRun: false,
    lostRank: null,
    ending: false,
    pendingExit: null,
    usage: null,
    ...before,
    clock: hear(before?.clock ?? null, event.clock, transition.now),
    attached: true,
    host: event.host,
    port: event.port,
    portFor: event.generation,
    lastHeard: transition.now,
  };
  transition.updateContainer(slot, { reattachBy: null });
  transition.update(slot, { executor, state: task.state === 'launching' ? 'registered' : task.state });
  if (before === null) {
    transition.recordTask('executor-registered', transition.task(slot), { message: `${event.host}:${event.port}`, program: event.phase });
  }
  if (transition.state.decision !== null) {
    return;
  }
  if (!inGang(task.role)) {
    helloUnranked(transition, slot, event);
  } else if (transition.gang?.phase === 'forming' || !isMember(task)) {
    prepareForNext(transition, slot, event, before);
  } else if (transition.gang?.phase === 'started') {
    helloStarted(transition, slot, event, before);
  } else {
    helloReattaching(transition, slot, event);
  }
}

/** Handles a Hello from a task that is not a member of the running generation, and prepares the task for the next generation. */
function prepareForNext(transition: Transition, slot: number, event: Said<'hello'>, before: TaskExecutor | null): void {
  const generation = next(transition.state.generation);
  const unused = event.generation === 0 && (before?.ranIn ?? 0) === 0;
  if (event.phase === 'idle' && event.port > 0 && (unused || event.generation === generation)) {
    transition.updateExecutor(slot, { program: null, awaiting: null, mayRun: false });
    return;
  }
  transition.updateExecutor(slot, {
    program: null,
    awaiting: { answer: 'ready', since: before?.awaiting?.since ?? transition.now },
    ranIn: event.phase === 'idle' ? (before?.ranIn ?? asGeneration(0)) : event.generation,
    mayRun: event.phase === 'running',
  });
  transition.update(slot, { state: 'registered' });
  transition.act({ type: 'prepare', containerId: event.containerId, generation });
}

function helloStarted(transition: Transition, slot: number, event: Said<'hello'>, before: TaskExecutor | null): void {
  const { generation } = transition.state;
  const program = before?.program ?? null;
  if (event.phase !== 'idle' && event.generation === generation) {
    nowRunning(transition, slot, generation);
    if (event.phase === 'ended') {
      ended(transition, slot, event);
    }
  } else if (event.phase === 'idle' && program?.phase === 'starting' && before?.port === event.port) {
    startMember(transition, slot);
  } else if (
    isIndependentlyReplaceable(jobOf(transition.state), transition.task(slot).role) &&
    event.phase === 'idle' &&
    program === null
  ) {
    // The task is a replacement worker. Its program starts when the task's previous program has exited.
    if (event.generation !== 0 && event.generation !== generation) {
      failTask(transition, slot, { kind: 'inconsistent' });
    }
  } else {
    failTask(transition, slot, { kind: 'inconsistent' });
  }
}

function helloReattaching(transition: Transition, slot: number, event: Said<'hello'>): void {
  if (event.phase === 'idle') {
    return;
  }
  transition.updateExecutor(slot, {
    program: { generation: event.generation, phase: 'running' },
    ranIn: event.generation,
    mayRun: event.phase === 'running',
  });
  noteStart(transition, slot, event.generation);
  transition.update(slot, { state: 'running' });
  if (event.phase === 'ended' && event.generation === transition.state.generation) {
    ended(transition, slot, event);
  }
}

function helloUnranked(transition: Transition, slot: number, event: Said<'hello'>): void {
  const program = transition.task(slot).executor?.program ?? null;
  if (event.phase === 'idle') {
    if (program === null || program.phase === 'starting') {
      transition.updateExecutor(slot, { program: null, awaiting: null, mayRun: false });
    } else {
      failTask(transition, slot, { kind: 'inconsistent' });
    }
    return;
  }
  if (program?.phase === 'ended') {
    return;
  }
  nowRunning(transition, slot, event.generation);
  if (event.phase === 'ended') {
    ended(transition, slot, event);
  }
}

function ended(transition: Transition, slot: number, event: Said<'hello'>): void {
  handleExit(transition, slot, event.exit ?? { generation: event.generation, code: -1, signal: '', stderrTail: '', permanent: false });
}

function ready(transition: Transition, event: Said<'ready'>): void {
  const slot = recordMessage(transition, event.containerId);
  if (slot === null) {
    return;
  }
  const task = transition.task(slot);
  if (!inGang(task.role)) {
    return;
  }
  if (transition.gang?.phase === 'forming' ? event.generation !== currentGeneration(transition.state) : isMember(task)) {
    return;
  }
  transition.updateExecutor(slot, { program: null, awaiting: null, mayRun: false, port: event.port, portFor: event.generation });
}

function started(transition: Transition, event: Said<'started'>): void {
  const slot = recordMessage(transition, event.containerId);
  if (slot !== null && transition.task(slot).executor?.program?.generation === event.generation) {
    nowRunning(transition, slot, event.generation);
  }
}

function heartbeat(transition: Transition, event: Said<'heartbeat'>): void {
  const slot = recordMessage(transition, event.containerId);
  if (slot === null) {
    return;
  }
  const { executor } = transition.task(slot);
  const { usage, progress, clock } = event;
  transition.updateExecutor(slot, { clock: hear(executor?.clock ?? null, clock, transition.now, usage?.stopped !== true) });
  if ((usage !== null && isBusy(usage)) || progress !== null) {
    transition.patch({ busyAt: transition.now });
  }
  if (usage !== null) {
    transition.updateExecutor(slot, { usage });
    const stoppedSince = usage.stopped ? (executor?.stoppedSince ?? transition.now) : null;
    if (stoppedSince !== executor?.stoppedSince) {
      transition.updateExecutor(slot, { stoppedSince });
    }
  }
  if (executor === null || progress === null) {
    return;
  }
  const task = transition.task(slot);
  if (executor.program?.generation !== event.generation) {
    // A program of the generation that has just ended may store a checkpoint in its grace period.
    if (isInGracePeriod(transition.state, task) && event.generation === transition.state.generation) {
      noteCheckpoint(transition, progress.checkpointStep);
    }
    return;
  }
  const metrics = Object.entries(progress.metrics).filter(([, value]) => Number.isFinite(value));
  // A program that has just started has reported no step yet.
  const { step, reportedStep } = progress.step > 0 ? { step: progress.step, reportedStep: progress.step } : task.progress;
  transition.update(slot, {
    progress: {
      step,
      reportedStep,
      total: progress.total ?? 0,
      metrics: Object.fromEntries([...Object.entries(task.progress.metrics), ...metrics].slice(-LIMITS.metrics)),
    },
  });
  noteCheckpoint(transition, progress.checkpointStep);
  for (const { text, about } of progress.notices.slice(0, LIMITS.notices)) {
    const notice = { task: nameOf(task), text: oneLine(text), about };
    const outdated = (each: TaskNotice) => about !== '' && each.about === about && each.task === notice.task;
    transition.patchTraining({
      notices: [...transition.state.training.notices.filter((each) => !outdated(each)), notice].slice(-LIMITS.notices),
    });
    transition.recordTask('notice', task, { generation: event.generation, message: notice.text });
    transition.dirty = true;
  }
  if (progress.ending !== executor.ending) {
    transition.updateExecutor(slot, { ending: progress.ending });
  }
  if (progress.earlyEnd !== null) {
    noteEarlyEnd(transition, task, progress.earlyEnd);
  }
  const { lostRank } = progress;
  if (lostRank !== null && task.rank !== null && lostRank !== task.rank && executor.lostRank === null) {
    transition.updateExecutor(slot, { lostRank: { rank: lostRank, since: transition.now } });
    const members = memberTasks(transition.state);
    const peer = members.find((member) => peerNumber(members, member) === lostRank);
    transition.recordTask('peer-lost', task, {
      generation: event.generation,
      message: peer === undefined ? `rank ${lostRank}` : nameOf(peer),
    });
  }
}

function noteEarlyEnd(transition: Transition, task: Task, { step, reason }: NonNullable<Progress['earlyEnd']>): void {
  const earlyEnd = describeEarlyEnd(step, oneLine(reason));
  if (earlyEnd === transition.state.training.earlyEnd) {
    return;
  }
  transition.patchTraining({ earlyEnd });
  // Save the reason, because a later attempt may need it after the chief has exited.
  transition.dirty = true;
  transition.recordTask('early-end', task, { message: earlyEnd });
}

function isBusy({ cpuCores, gpus }: Usage): boolean {
  return cpuCores >= BUSY_SHARE || gpus.some(({ utilization }) => utilization >= BUSY_SHARE);
}

function exited(transition: Transition, event: Said<'exited'>): void {
  const slot = recordMessage(transition, event.containerId);
  if (slot !== null) {
    handleExit(transition, slot, event.exit);
  }
}

function streamLost(transition: Transition, event: Said<'stream-lost'>): void {
  const slot = transition.state.byContainer.get(event.containerId);
  // A lost stream is not a failure. An executor counts as lost only after it has been silent for too long.
  if (slot !== undefined) {
    transition.updateExecutor(slot, { attached: false });
  } else {
    noteStreamLost(transition, event.containerId);
  }
}

function handleExit(transition: Transition, slot: number, exit: ProgramExit): void {
  const task = transition.task(slot);
  const program = task.executor?.program ?? null;
  // Ignore repeated exit reports, and reports from older generations.
  if (program === null || program.phase === 'ended' || program.generation !== exit.generation) {
    return;
  }
  if (inGang(task.role) && exit.generation !== transition.state.generation) {
    return;
  }
  // A program that could not be started exits without a report of its start.
  noteStart(transition, slot, exit.generation);
  transition.updateExecutor(slot, { program: { ...program, phase: 'ended' }, awaiting: null, mayRun: false, stoppedSince: null });
  if (transition.state.decision !== null) {
    return;
  }
  transition.recordTask('program-ended', task, { generation: exit.generation, exit: programEnd(exit) });
  if (exit.code === 0 && exit.signal === '') {
    succeed(transition, slot);
  } else {
    const until = deferredUntil(transition, transition.task(slot), exit);
    transition.updateExecutor(slot, { pendingExit: { exit, since: transition.now, until } });
    transition.update(slot, { exit: programEnd(exit) });
    settleExits(transition);
  }
}

/** Returns the deadline for a report that may explain a failed exit. */
function deferredUntil(transition: Transition, task: Task, exit: ProgramExit): number {
  const lostRank = task.executor?.lostRank ?? null;
  // Some members have not reattached yet. One of them may be the lost peer.
  if (lostRank !== null && transition.gang?.phase === 'reattaching') {
    return Number.MAX_SAFE_INTEGER;
  }
  if (lostRank !== null) {
    return lostRank.since + incidentMs(jobOf(transition.state));
  }
  return isSignalled(programEnd(exit)) && isLastStraw(transition.state, task) ? transition.now + LIMITS.truthMs : transition.now;
}

/**
 * Marks the task as succeeded. Its executor keeps running until the success has been saved, because a later attempt would otherwise
 * consider the task lost.
 */
function succeed(transition: Transition, slot: number): void {
  transition.update(slot, { state: 'succeeded', exit: { code: 0, signal: null } });
  transition.updateContainer(slot, { leaveRevision: transition.nextRevision });
  transition.dirty = true;
}

function nowRunning(transition: Transition, slot: number, generation: Generation): void {
  const task = transition.task(slot);
  const program = task.executor?.program ?? null;
  if (program?.phase === 'ended' || (program?.phase === 'running' && program.generation === generation) || isOver(task)) {
    return;
  }
  transition.updateExecutor(slot, { program: { generation, phase: 'running' }, awaiting: null, ranIn: generation, mayRun: true });
  noteStart(transition, slot, generation);
  transition.update(slot, { state: 'running', failures: { unstarted: 0 }, wait: { rounds: 0 } });
  // A later attempt needs the start time to enforce the time limit.
  transition.dirty ||= task.role.timeoutMs !== null;
  transition.recordTask('program-started', transition.task(slot), { generation });
}

/** Counts the start of a program once, although its executor reports the program again to each attempt of the ApplicationMaster. */
function noteStart(transition: Transition, slot: number, generation: Generation): void {
  const { startedAt, generation: newest, programStarts } = transition.task(slot);
  const isNew = startedAt === null || generation > newest;
  transition.update(slot, { generation, ...(isNew && { startedAt: transition.now, programStarts: programStarts + 1 }) });
}

/** Records the step of the newest checkpoint that a program has stored. 0 stands for none. */
function noteCheckpoint(transition: Transition, checkpointStep: number): void {
  if (checkpointStep > 0 && checkpointStep !== transition.state.training.checkpointStep) {
    transition.patchTraining({ checkpointStep });
    transition.checkpointed = true;
  }
}

/**
 * Records that a container's executor has sent a message. Returns the slot of the container's task, or null if the container has no task or
 * its executor has not registered.
 */
function recordMessage(transition: Transition, containerId: string): number | null {
  const slot = transition.state.byContainer.get(containerId);
  if (slot === undefined) {
    recordUnassigned(transition, containerId);
  }
  if (slot === undefined || transition.task(slot).executor === null) {
    return null;
  }
  transition.updateExecutor(slot, { lastHeard: transition.now, attached: true });
  return slot;
}
