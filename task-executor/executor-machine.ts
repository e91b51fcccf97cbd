import type { Exited, MemberMessage } from '../protos/executor-protocol.ts';

/*
 * What an executor does, as a function from values to values: `step(state, event) -> { state, actions }`. Time comes with the events.
 *
 *   program   none -> starting -> running -> ended          (one program a generation, one at a time)
 *   port      bound before it is announced, given to one program, never to a second
 */

export interface ExecutorState {
  readonly link: 'open' | 'lost';
  /** The highest attempt of the ApplicationMaster seen. Lower ones are out of date, whatever they say. */
  readonly masterAttempt: number;
  /** When the master was surely there (ms), and for how long that is good. */
  readonly lastContact: number;
  readonly lastTick: number;
  readonly leaseMs: number;
  /** Of the program, or that the port is bound for; 0 before the first. */
  readonly generation: number;
  /** 0 while none is bound. */
  readonly port: number;
  readonly program: Program | null;
  /** The generation that a port is to be bound for as soon as no program lives. */
  readonly preparing: number | null;
  readonly leaving: Leaving | null;
}

export type Program =
  | { readonly phase: 'starting' }
  | { readonly phase: 'running'; readonly pid: number }
  | { readonly phase: 'ended'; readonly exit: Exited };

/** What a hello tells of the program and its port. */
export interface Said {
  readonly generation: number;
  readonly phase: 'IDLE' | 'RUNNING' | 'ENDED';
  /** 0 while none is bound. */
  readonly port: number;
}

export interface Leaving {
  readonly since: number;
  readonly exitCode: number;
  readonly reason: string;
}

export type ExecutorEvent = { readonly now: number } & (
  | { readonly type: 'bound'; readonly generation: number; readonly port: number }
  /** The master has taken the hello; `said` is what stood in it. */
  | { readonly type: 'connected'; readonly masterAttempt: number; readonly leaseMs: number; readonly said: Said }
  | { readonly type: 'disconnected' }
  /** The master says that this container has no part in the job; `masterAttempt` is 0 when it does not say which attempt it is. */
  | { readonly type: 'refused'; readonly masterAttempt: number; readonly reason: string }
  | { readonly type: 'prepare'; readonly generation: number }
  | { readonly type: 'start'; readonly generation: number; readonly members: readonly MemberMessage[] }
  | { readonly type: 'stop'; readonly reason: string }
  | { readonly type: 'started'; readonly generation: number; readonly pid: number }
  /** The program and all of its process group are gone. */
  | { readonly type: 'exited'; readonly exit: Exited }
  /** The container is told to end. */
  | { readonly type: 'terminated'; readonly exitCode: number; readonly reason: string }
  | { readonly type: 'tick' }
);

/** Carried out in order; none is awaited. */
export type ExecutorAction =
  | { readonly type: 'bind'; readonly generation: number }
  | { readonly type: 'spawn'; readonly generation: number; readonly members: readonly MemberMessage[] }
  /** `gently`: it may write a checkpoint first. */
  | { readonly type: 'kill'; readonly gently: boolean }
  | { readonly type: 'say-ready'; readonly generation: number; readonly port: number }
  | { readonly type: 'say-started'; readonly generation: number; readonly pid: number }
  | { readonly type: 'say-exited'; readonly exit: Exited }
  | { readonly type: 'disconnect'; readonly reason: string }
  | { readonly type: 'note'; readonly text: string }
  /** End this process; nothing follows. */
  | { readonly type: 'leave'; readonly exitCode: number; readonly reason: string };

export interface Step {
  readonly state: ExecutorState;
  readonly actions: readonly ExecutorAction[];
}

/** Until the first master says otherwise. */
export const FIRST_LEASE_MS = 120_000;
/** A pause between ticks longer than this means that this process was stopped: the master may have given it up meanwhile. */
const HELD_UP_MS = 5_000;
/** A program that is killed may take so long to go (a disk or a driver holds it); then this process leaves without its report. */
const LEAVE_MS = 15_000;

export function createExecutor(now: number): ExecutorState {
  return {
    link: 'lost',
    masterAttempt: 0,
    lastContact: now,
    lastTick: now,
    leaseMs: FIRST_LEASE_MS,
    generation: 0,
    port: 0,
    program: null,
    preparing: 0,
    leaving: null,
  };
}

export function step(state: ExecutorState, event: ExecutorEvent): Step {
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
    case 'stop':
      return leave(state, event.now, 0, event.reason, true);
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

function only(state: ExecutorState): Step {
  return { state, actions: [] };
}

function ignore(state: ExecutorState, text: string): Step {
  return { state, actions: [{ type: 'note', text }] };
}

function lives(program: Program | null): boolean {
  return program !== null && program.phase !== 'ended';
}

function bound(state: ExecutorState, generation: number, port: number): Step {
  if (state.leaving !== null || state.preparing === null) return only(state);
  // Another generation has been asked for while this port was being bound.
  if (state.preparing !== generation) return { state, actions: [{ type: 'bind', generation: state.preparing }] };
  return {
    state: { ...state, preparing: null, generation, port },
    actions: generation === 0 ? [] : [{ type: 'say-ready', generation, port }],
  };
}

export function saidOf({ generation, port, program, preparing }: ExecutorState): Said {
  return {
    generation,
    phase: program === null ? 'IDLE' : program.phase === 'ended' ? 'ENDED' : 'RUNNING',
    port: preparing === null ? port : 0,
  };
}

/** What has happened while the hello was under way was said to nobody: there was no link. */
function connected(state: ExecutorState, { masterAttempt, leaseMs, now, said }: Extract<ExecutorEvent, { type: 'connected' }>): Step {
  if (masterAttempt < state.masterAttempt)
    return { state, actions: [{ type: 'disconnect', reason: `attempt ${masterAttempt} of the ApplicationMaster is out of date` }] };
  const next: ExecutorState = { ...state, link: 'open', masterAttempt, leaseMs, lastContact: now };
  const { generation, port, program } = next;
  const present = saidOf(next);
  if (present.generation === said.generation && present.phase === said.phase && present.port === said.port) return only(next);
  if (program?.phase === 'ended') return { state: next, actions: [{ type: 'say-exited', exit: program.exit }] };
  if (program?.phase === 'running') return { state: next, actions: [{ type: 'say-started', generation, pid: program.pid }] };
  if (program === null && generation > 0 && present.port > 0) return { state: next, actions: [{ type: 'say-ready', generation, port }] };
  return only(next);
}

function prepare(state: ExecutorState, generation: number): Step {
  if (state.leaving !== null) return only(state);
  const newest = Math.max(state.generation, state.preparing ?? 0);
  if (generation < newest) return ignore(state, `Prepare of generation ${generation} is out of date: ${newest} is there`);
  if (generation === state.preparing) return only(state);
  if (generation === state.generation) {
    return state.program === null
      ? { state, actions: [{ type: 'say-ready', generation, port: state.port }] }
      : ignore(state, `Prepare of generation ${generation}, whose program has been started`);
  }
  const next = { ...state, preparing: generation };
  if (lives(state.program)) return { state: next, actions: [{ type: 'kill', gently: false }] };
  // While a port is being bound, its `bound` goes on from there.
  if (state.preparing !== null) return only(next);
  return { state: { ...next, program: null, port: 0 }, actions: [{ type: 'bind', generation }] };
}

function start(state: ExecutorState, generation: number, members: readonly MemberMessage[]): Step {
  if (state.leaving !== null) return only(state);
  const { program } = state;
  if (program !== null || state.preparing !== null || state.port === 0) {
    if (generation === state.generation && state.preparing === null) {
      if (program?.phase === 'running') return { state, actions: [{ type: 'say-started', generation, pid: program.pid }] };
      if (program?.phase === 'ended') return { state, actions: [{ type: 'say-exited', exit: program.exit }] };
      return only(state);
    }
    return ignore(state, `Start of generation ${generation} has no port of its own yet`);
  }
  // A port that no program has had serves any generation; one that was bound for a generation serves that one.
  if (state.generation !== 0 && state.generation !== generation)
    return ignore(state, `Start of generation ${generation} while the port is bound for ${state.generation}`);
  return { state: { ...state, generation, program: { phase: 'starting' } }, actions: [{ type: 'spawn', generation, members }] };
}

function started(state: ExecutorState, generation: number, pid: number): Step {
  if (state.program?.phase !== 'starting' || state.generation !== generation) return only(state);
  const next: ExecutorState = { ...state, program: { phase: 'running', pid } };
  // Whoever asked for its end meanwhile may have asked before there was a process.
  if (state.leaving !== null || state.preparing !== null) return { state: next, actions: [{ type: 'kill', gently: false }] };
  return { state: next, actions: [{ type: 'say-started', generation, pid }] };
}

function exited(state: ExecutorState, exit: Exited): Step {
  if (!lives(state.program) || exit.generation !== state.generation) return only(state);
  const ended: ExecutorState = { ...state, program: { phase: 'ended', exit } };
  if (state.leaving !== null) return { state: ended, actions: [{ type: 'say-exited', exit }, left(state.leaving)] };
  // Killed for the sake of the next generation: that is no news.
  if (state.preparing !== null)
    return { state: { ...ended, program: null, port: 0 }, actions: [{ type: 'bind', generation: state.preparing }] };
  return { state: ended, actions: [{ type: 'say-exited', exit }] };
}

function leave(state: ExecutorState, now: number, exitCode: number, reason: string, gently: boolean): Step {
  if (state.leaving !== null) {
    // A container that is being ended has no time for gentleness.
    return !gently && lives(state.program) ? { state, actions: [{ type: 'kill', gently: false }] } : only(state);
  }
  const leaving = { since: now, exitCode, reason };
  return lives(state.program)
    ? {
        state: { ...state, leaving },
        actions: [
          { type: 'note', text: `ending the program: ${reason}` },
          { type: 'kill', gently },
        ],
      }
    : { state: { ...state, leaving }, actions: [left(leaving)] };
}

function left({ exitCode, reason }: Leaving): ExecutorAction {
  return { type: 'leave', exitCode, reason };
}

function tick(state: ExecutorState, now: number): Step {
  const heldUp = now - state.lastTick > HELD_UP_MS;
  // An open link of a process that was stopped may have been cut long ago: only the next tick knows.
  const next = { ...state, lastTick: now, lastContact: state.link === 'open' && !heldUp ? now : state.lastContact };
  if (next.leaving !== null) {
    return now - next.leaving.since > LEAVE_MS ? { state: next, actions: [left(next.leaving)] } : only(next);
  }
  if (next.link === 'open' || now - next.lastContact <= next.leaseMs) return only(next);
  const seconds = Math.round((now - next.lastContact) / 1000);
  return leave(next, now, 1, `no ApplicationMaster could be reached for ${seconds} s`, false);
}
