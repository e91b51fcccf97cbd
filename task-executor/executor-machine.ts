import { LEAST_LEASE_MS } from '../conf/values/lease.ts';
import type { TonyMessages } from '../protos/tony-messages.ts';

/*
 * The executor's state machine is a pure function, `step(state, event) -> { state, actions }`. Events contain the current time.
 *
 *   program   none -> starting -> running -> ended          (one program per generation, one at a time)
 *   port      bound before its announcement, used by one program and never reused
 */

export interface ExecutorState {
  readonly link: 'open' | 'lost';
  /** The highest known ApplicationMaster attempt number. Messages from earlier attempts are rejected. */
  readonly masterAttempt: number;
  /** Time in ms at which an ApplicationMaster was last known to be reachable. The lease starts at this time. */
  readonly lastContact: number;
  readonly lastTick: number;
  readonly leaseMs: number;
  /** Time in ms that a program has between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** Generation that the program belongs to or, if no program has started, for which the port was bound. 0 before the first generation. */
  readonly generation: number;
  /** Port number, or 0 while no port is bound. */
  readonly port: number;
  readonly program: ProgramState | null;
  /** Generation for which to bind a port once the current program has exited, or null if there is none. */
  readonly preparing: number | null;
  readonly leaving: Leaving | null;
}

export type ProgramState =
  | { readonly phase: 'starting' }
  | { readonly phase: 'running'; readonly pid: number }
  | { readonly phase: 'ended'; readonly exit: TonyMessages['Exited'] };

export type ReportedState = Pick<TonyMessages['Hello'], 'generation' | 'phase' | 'port'>;

export interface Leaving {
  /** Time in ms until which to wait for the program to exit. */
  readonly until: number;
  readonly exitCode: number;
  readonly reason: string;
}

export type ExecutorEvent = { readonly now: number } & (
  | { readonly type: 'bound'; readonly generation: number; readonly port: number }
  /** The ApplicationMaster has accepted the Hello. `reported` is the executor's state in that Hello. */
  | { readonly type: 'connected'; readonly masterAttempt: number; readonly leaseMs: number; readonly reported: ReportedState }
  | { readonly type: 'disconnected' }
  /** The ApplicationMaster has rejected this container, because it is not part of the job. `masterAttempt` is 0 if unknown. */
  | { readonly type: 'refused'; readonly masterAttempt: number; readonly reason: string }
  | { readonly type: 'prepare'; readonly generation: number }
  | { readonly type: 'start'; readonly generation: number; readonly members: readonly TonyMessages['Member'][] }
  | { readonly type: 'checkpoint'; readonly generation: number }
  | { readonly type: 'stop'; readonly reason: string; readonly atOnce: boolean }
  | { readonly type: 'started'; readonly generation: number; readonly pid: number }
  /** All of the program's processes have exited. */
  | { readonly type: 'exited'; readonly exit: TonyMessages['Exited'] }
  /** The executor must exit, because it has received a signal or cannot continue. */
  | { readonly type: 'terminated'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'tick' }
);

/** An output from the state machine. The executor starts actions in order, without waiting for them to complete. */
export type ExecutorAction =
  | { readonly type: 'bind'; readonly generation: number }
  | { readonly type: 'spawn'; readonly generation: number; readonly members: readonly TonyMessages['Member'][] }
  | { readonly type: 'order-checkpoint' }
  /** Kills the program. With `gently`, the program can write a checkpoint first. */
  | { readonly type: 'kill'; readonly gently: boolean }
  | { readonly type: 'say-ready'; readonly generation: number; readonly port: number }
  | { readonly type: 'say-started'; readonly generation: number; readonly pid: number }
  | { readonly type: 'say-exited'; readonly exit: TonyMessages['Exited'] }
  /** Reports that all of the program's processes have exited. */
  | { readonly type: 'say-left' }
  | { readonly type: 'disconnect'; readonly reason: string }
  | { readonly type: 'note'; readonly text: string }
  /** Exits this process. Always the last action. */
  | { readonly type: 'leave'; readonly exitCode: number; readonly reason: string };

export interface ExecutorStep {
  readonly state: ExecutorState;
  readonly actions: readonly ExecutorAction[];
}

/**
 * If the gap between two ticks exceeds this value, in ms, this process counts as having been suspended. In that case, the ApplicationMaster
 * may have declared the executor lost in the meantime.
 */
const HELD_UP_MS = 5_000;
/**
 * Maximum time in ms to wait for a program to exit after SIGKILL, and for its last checkpoint to be stored. The wait is limited, because a
 * process can hang on a disk operation. After this time, the executor exits without reporting that the program has exited.
 */
const LEAVE_MS = 12_000;

export function createExecutor(now: number, graceMs: number): ExecutorState {
  return {
    link: 'lost',
    masterAttempt: 0,
    lastContact: now,
    lastTick: now,
    // The default until an ApplicationMaster sends the lease.
    leaseMs: LEAST_LEASE_MS,
    graceMs,
    generation: 0,
    port: 0,
    program: null,
    preparing: 0,
    leaving: null,
  };
}

export function step(state: ExecutorState, event: ExecutorEvent): ExecutorStep {
  switch (event.type) {
    case 'bound':
      return bound(state, event.generation, event.port);
    case 'connected':
      return connected(state, event);
    case 'disconnected':
      return only({ ...state, link: 'lost' });
    case 'refused':
      return event.masterAttempt !== 0 && event.masterAttempt < state.masterAttempt
        ? only(state)
        : leave(state, event.now, 1, `the ApplicationMaster refused this container: ${event.reason}`, false);
    case 'prepare':
      return prepare(state, event.generation);
    case 'start':
      return start(state, event.generation, event.members);
    case 'checkpoint':
      return state.program?.phase === 'running' && state.generation === event.generation && state.leaving === null
        ? { state, actions: [{ type: 'order-checkpoint' }] }
        : only(state);
    case 'stop':
      return leave(state, event.now, 0, event.reason, !event.atOnce);
    case 'started':
      return started(state, event.generation, event.pid);
    case 'exited':
      return exited(state, event.exit);
    case 'terminated':
      return leave(state, event.now, event.exitCode, event.reason, false);
    case 'tick':
      return tick(state, event.now);
  }
}

function only(state: ExecutorState): ExecutorStep {
  return { state, actions: [] };
}

function ignore(state: ExecutorState, text: string): ExecutorStep {
  return { state, actions: [{ type: 'note', text }] };
}

function lives(program: ProgramState | null): boolean {
  return program !== null && program.phase !== 'ended';
}

function bound(state: ExecutorState, generation: number, port: number): ExecutorStep {
  if (state.leaving !== null || state.preparing === null) {
    return only(state);
  }
  if (state.preparing !== generation) {
    return { state, actions: [{ type: 'bind', generation: state.preparing }] };
  }
  return {
    state: { ...state, preparing: null, generation, port },
    actions: generation === 0 ? [] : [{ type: 'say-ready', generation, port }],
  };
}

export function reportedState({ generation, port, program, preparing }: ExecutorState): ReportedState {
  return {
    generation,
    phase: program === null ? 'IDLE' : program.phase === 'ended' ? 'ENDED' : 'RUNNING',
    port: preparing === null ? port : 0,
  };
}

/**
 * Handles the response to a Hello. Reports everything that has changed since the Hello, because the executor cannot send reports before
 * Welcome arrives.
 */
function connected(
  state: ExecutorState,
  { masterAttempt, leaseMs, now, reported }: Extract<ExecutorEvent, { type: 'connected' }>,
): ExecutorStep {
  if (masterAttempt < state.masterAttempt) {
    return { state, actions: [{ type: 'disconnect', reason: `ApplicationMaster attempt ${masterAttempt} is out of date` }] };
  }
  const next: ExecutorState = { ...state, link: 'open', masterAttempt, leaseMs, lastContact: now };
  const { generation, port, program } = next;
  const present = reportedState(next);
  if (present.generation === reported.generation && present.phase === reported.phase && present.port === reported.port) {
    return only(next);
  }
  if (program?.phase === 'ended') {
    return { state: next, actions: [{ type: 'say-exited', exit: program.exit }] };
  }
  if (program?.phase === 'running') {
    return { state: next, actions: [{ type: 'say-started', generation, pid: program.pid }] };
  }
  if (program === null && generation > 0 && present.port > 0) {
    return { state: next, actions: [{ type: 'say-ready', generation, port }] };
  }
  return only(next);
}

function prepare(state: ExecutorState, generation: number): ExecutorStep {
  if (state.leaving !== null) {
    return only(state);
  }
  const newest = Math.max(state.generation, state.preparing ?? 0);
  if (generation < newest) {
    return ignore(state, `ignoring an outdated Prepare for generation ${generation}; the newest generation is ${newest}`);
  }
  if (generation === state.preparing) {
    return only(state);
  }
  if (generation === state.generation) {
    return state.program === null
      ? { state, actions: [{ type: 'say-ready', generation, port: state.port }] }
      : ignore(state, `ignoring Prepare for generation ${generation}: its program has already started`);
  }
  const next = { ...state, preparing: generation };
  if (lives(state.program)) {
    return { state: next, actions: [{ type: 'kill', gently: true }] };
  }
  // A port is already being bound for an older generation. When it is bound, `bound` orders another port for the newest generation.
  if (state.preparing !== null) {
    return only(next);
  }
  return { state: { ...next, program: null, port: 0 }, actions: [{ type: 'bind', generation }] };
}

function start(state: ExecutorState, generation: number, members: readonly TonyMessages['Member'][]): ExecutorStep {
  if (state.leaving !== null) {
    return only(state);
  }
  const { program } = state;
  if (program !== null || state.preparing !== null || state.port === 0) {
    if (generation === state.generation && state.preparing === null) {
      if (program?.phase === 'running') {
        return { state, actions: [{ type: 'say-started', generation, pid: program.pid }] };
      }
      if (program?.phase === 'ended') {
        return { state, actions: [{ type: 'say-exited', exit: program.exit }] };
      }
      return only(state);
    }
    return ignore(state, `ignoring Start for generation ${generation}: no port is bound for it`);
  }
  // The first port is bound before there is a generation, and is valid for any generation. Each later port is valid for only one
  // generation.
  if (state.generation !== 0 && state.generation !== generation) {
    return ignore(state, `ignoring Start for generation ${generation}: the port is bound for generation ${state.generation}`);
  }
  return { state: { ...state, generation, program: { phase: 'starting' } }, actions: [{ type: 'spawn', generation, members }] };
}

function started(state: ExecutorState, generation: number, pid: number): ExecutorStep {
  if (state.program?.phase !== 'starting' || state.generation !== generation) {
    return only(state);
  }
  const next: ExecutorState = { ...state, program: { phase: 'running', pid } };
  if (state.leaving !== null || state.preparing !== null) {
    return { state: next, actions: [{ type: 'kill', gently: false }] };
  }
  return { state: next, actions: [{ type: 'say-started', generation, pid }] };
}

function exited(state: ExecutorState, exit: TonyMessages['Exited']): ExecutorStep {
  if (!lives(state.program) || exit.generation !== state.generation) {
    return only(state);
  }
  const ended: ExecutorState = { ...state, program: { phase: 'ended', exit } };
  if (state.leaving !== null) {
    return { state: ended, actions: [{ type: 'say-exited', exit }, { type: 'say-left' }, left(state.leaving)] };
  }
  // The program was killed to make way for the next generation, so its exit is not reported.
  if (state.preparing !== null) {
    return { state: { ...ended, program: null, port: 0 }, actions: [{ type: 'bind', generation: state.preparing }] };
  }
  return { state: ended, actions: [{ type: 'say-exited', exit }] };
}

function leave(state: ExecutorState, now: number, exitCode: number, reason: string, gently: boolean): ExecutorStep {
  if (state.leaving !== null) {
    // The program has already been told to exit. If this order does not allow a grace period, kill the program immediately.
    return !gently && lives(state.program) ? killAtOnce(state, state.leaving, now) : only(state);
  }
  const leaving = { until: now + (gently ? state.graceMs : 0) + LEAVE_MS, exitCode, reason };
  return lives(state.program)
    ? {
        state: { ...state, leaving },
        actions: [
          { type: 'note', text: `ending the program: ${reason}` },
          { type: 'kill', gently },
        ],
      }
    : { state: { ...state, leaving }, actions: [{ type: 'say-left' }, left(leaving)] };
}

/** Ends the grace period of a program that has been told to exit. */
function killAtOnce(state: ExecutorState, leaving: Leaving, now: number): ExecutorStep {
  const next = { ...state, leaving: { ...leaving, until: Math.min(leaving.until, now + LEAVE_MS) } };
  return { state: next, actions: [{ type: 'kill', gently: false }] };
}

function left({ exitCode, reason }: Leaving): ExecutorAction {
  return { type: 'leave', exitCode, reason };
}

function tick(state: ExecutorState, now: number): ExecutorStep {
  const heldUp = now - state.lastTick > HELD_UP_MS;
  // After a suspension, the link may be broken even though it is still marked as open. Wait for the next tick, which shows whether it
  // works.
  const next = { ...state, lastTick: now, lastContact: state.link === 'open' && !heldUp ? now : state.lastContact };
  const hasLease = next.link === 'open' || now - next.lastContact <= next.leaseMs;
  if (next.leaving !== null) {
    if (now > next.leaving.until) {
      return { state: next, actions: [left(next.leaving)] };
    }
    // A successor may start once the lease has expired, so the lease also ends the grace period.
    return hasLease || !lives(next.program) ? only(next) : killAtOnce(next, next.leaving, now);
  }
  if (hasLease) {
    return only(next);
  }
  const seconds = Math.round((now - next.lastContact) / 1000);
  return leave(next, now, 1, `no ApplicationMaster could be reached for ${seconds} s`, false);
}
