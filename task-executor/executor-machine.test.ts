import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  createExecutor,
  type ExecutorAction,
  type ExecutorEvent,
  type ExecutorState,
  type ReportedState,
  step,
} from './executor-machine.ts';

const GRACE_MS = 3_000;

type UntimedEvent = ExecutorEvent extends infer One ? (One extends ExecutorEvent ? Omit<One, 'now'> : never) : never;

function run(
  events: readonly UntimedEvent[],
  state = createExecutor(0, GRACE_MS),
  now = 0,
): { state: ExecutorState; actions: ExecutorAction[] } {
  const actions: ExecutorAction[] = [];
  let current = state;
  for (const event of events) {
    const next = step(current, { ...event, now } as ExecutorEvent);
    current = next.state;
    actions.push(...next.actions);
  }
  return { state: current, actions };
}

const exit = (generation: number, code = 0) =>
  ({ type: 'exited', exit: { generation, code, signal: '', stderrTail: '', clock: 0 } }) as const;
const welcomed: UntimedEvent[] = [
  { type: 'bound', generation: 0, port: 100 },
  { type: 'connected', masterAttempt: 1, leaseMs: 1000, reported: { generation: 0, phase: 'IDLE', port: 100 } },
];
const again = (masterAttempt: number, reported: ReportedState): UntimedEvent => ({
  type: 'connected',
  masterAttempt,
  leaseMs: 1000,
  reported,
});
const startedOnce: UntimedEvent[] = [
  ...welcomed,
  { type: 'start', generation: 3, members: [] },
  { type: 'started', generation: 3, pid: 7 },
];

describe('the executor', () => {
  it('starts each generation on an unused port', () => {
    const { state, actions } = run(startedOnce);
    expect(actions).toEqual([
      { type: 'spawn', generation: 3, members: [] },
      { type: 'say-started', generation: 3, pid: 7 },
    ]);
    expect(state).toMatchObject({ generation: 3, port: 100, program: { phase: 'running' } });
  });

  it('forwards a checkpoint order only to the running program of that generation', () => {
    const { state } = run(startedOnce);
    expect(run([{ type: 'checkpoint', generation: 3 }], state).actions).toEqual([{ type: 'order-checkpoint' }]);
    expect(run([{ type: 'checkpoint', generation: 2 }], state).actions).toEqual([]);
    expect(run([exit(3), { type: 'checkpoint', generation: 3 }], state).actions.filter(({ type }) => type === 'order-checkpoint')).toEqual(
      [],
    );
    expect(run([...welcomed, { type: 'checkpoint', generation: 0 }]).actions).toEqual([]);
  });

  it('answers repeated messages without repeating the action', () => {
    const { state } = run(startedOnce);
    expect(run([{ type: 'start', generation: 3, members: [] }], state).actions).toEqual([{ type: 'say-started', generation: 3, pid: 7 }]);
    const prepared = run(
      [
        { type: 'prepare', generation: 4 },
        { type: 'prepare', generation: 4 },
        exit(3, -1),
        { type: 'prepare', generation: 4 },
        { type: 'bound', generation: 4, port: 101 },
        { type: 'prepare', generation: 4 },
      ],
      state,
    );
    expect(prepared.actions).toEqual([
      { type: 'kill', gently: true },
      { type: 'bind', generation: 4 },
      { type: 'say-ready', generation: 4, port: 101 },
      { type: 'say-ready', generation: 4, port: 101 },
    ]);
  });

  it('binds a port for the newest requested generation', () => {
    const { state } = run(startedOnce);
    const { actions } = run(
      [
        { type: 'prepare', generation: 4 },
        exit(3, -1),
        { type: 'prepare', generation: 5 },
        { type: 'bound', generation: 4, port: 101 },
        { type: 'bound', generation: 5, port: 102 },
        { type: 'start', generation: 4, members: [] },
        { type: 'start', generation: 5, members: [] },
      ],
      state,
    );
    expect(actions.map(({ type }) => type)).toEqual(['kill', 'bind', 'bind', 'say-ready', 'note', 'spawn']);
  });

  it('reports an exit, repeats the report on request, and keeps running until it is ordered to stop', () => {
    const { state, actions } = run([exit(3, 2)], run(startedOnce).state);
    expect(actions).toMatchObject([{ type: 'say-exited', exit: { code: 2 } }]);
    expect(run([{ type: 'start', generation: 3, members: [] }], state).actions).toMatchObject([{ type: 'say-exited' }]);
    expect(run([{ type: 'stop', reason: 'done', atOnce: false }], state).actions).toEqual([
      { type: 'say-left' },
      { type: 'leave', exitCode: 0, reason: 'done' },
    ]);
  });

  it('ends its program before it exits, and waits a limited time for that program', () => {
    const { state, actions } = run([{ type: 'stop', reason: 'done', atOnce: false }], run(startedOnce).state);
    expect(actions).toMatchObject([{ type: 'note' }, { type: 'kill', gently: true }]);
    expect(run([exit(3, -1)], state).actions).toMatchObject([{ type: 'say-exited' }, { type: 'say-left' }, { type: 'leave', exitCode: 0 }]);
    expect(step(state, { type: 'tick', now: 14_000 }).actions).toEqual([]);
    expect(step(state, { type: 'tick', now: 16_000 }).actions).toMatchObject([{ type: 'leave' }]);
  });

  it('waits for the grace period of its role, and then for a killed program', () => {
    const started = run(startedOnce, createExecutor(0, 60_000)).state;
    const { state } = run([{ type: 'stop', reason: 'done', atOnce: false }], started);
    expect(step(state, { type: 'tick', now: 72_000 }).actions).toEqual([]);
    expect(step(state, { type: 'tick', now: 72_001 }).actions).toMatchObject([{ type: 'leave' }]);
    const hurried = run([{ type: 'stop', reason: 'lost', atOnce: true }], state, 5_000);
    expect(hurried.actions).toEqual([{ type: 'kill', gently: false }]);
    expect(step(hurried.state, { type: 'tick', now: 17_001 }).actions).toMatchObject([{ type: 'leave' }]);
  });

  it('the expiry of the lease ends the grace period, because a successor may start', () => {
    const started = run(startedOnce, createExecutor(0, 60_000)).state;
    for (const order of [
      { type: 'stop', reason: 'done', atOnce: false },
      { type: 'prepare', generation: 4 },
    ] as const) {
      let { state } = run([order, { type: 'disconnected' }], started);
      state = step(state, { type: 'tick', now: 900 }).state;
      expect(step(state, { type: 'tick', now: 1_001 }).actions).toContainEqual({ type: 'kill', gently: false });
    }
  });

  it('kills a program that was ordered to end while it was being started', () => {
    const { state } = run([...welcomed, { type: 'start', generation: 1, members: [] }]);
    const { actions } = run([{ type: 'prepare', generation: 2 }, { type: 'started', generation: 1, pid: 9 }, exit(1, -1)], state);
    expect(actions.map(({ type }) => type)).toEqual(['kill', 'kill', 'bind']);
  });

  it('ends the program when the lease has expired, but not while an ApplicationMaster is connected', () => {
    let { state } = run(startedOnce);
    for (let now = 0; now <= 10_000; now += 500) {
      const next = step(state, { type: 'tick', now });
      expect(next.actions).toEqual([]);
      state = next.state;
    }
    state = step(state, { type: 'disconnected', now: 10_000 }).state;
    expect(step(state, { type: 'tick', now: 11_000 }).actions).toEqual([]);
    expect(step(state, { type: 'tick', now: 11_100 }).actions).toMatchObject([{ type: 'note' }, { type: 'kill', gently: false }]);
  });

  it('counts a suspension as time without an ApplicationMaster', () => {
    let { state } = run(startedOnce);
    state = step(state, { type: 'tick', now: 1_000 }).state;
    state = step(state, { type: 'tick', now: 9_000 }).state;
    state = step(state, { type: 'disconnected', now: 9_001 }).state;
    expect(step(state, { type: 'tick', now: 9_500 }).actions).toMatchObject([{ type: 'note' }, { type: 'kill' }]);
  });

  it('ignores an outdated ApplicationMaster', () => {
    const reported: ReportedState = { generation: 3, phase: 'RUNNING', port: 100 };
    const { state } = run([again(2, reported)], run(startedOnce).state);
    expect(run([again(1, reported)], state).actions).toMatchObject([{ type: 'disconnect' }]);
    expect(run([{ type: 'refused', masterAttempt: 1, reason: '' }], state).actions).toEqual([]);
    expect(run([{ type: 'refused', masterAttempt: 2, reason: '' }], state).actions).toMatchObject([{ type: 'note' }, { type: 'kill' }]);
  });

  it('reports changes since the Hello when the ApplicationMaster accepts it', () => {
    const running = run(startedOnce).state;
    const reported: ReportedState = { generation: 3, phase: 'RUNNING', port: 100 };
    expect(run([again(2, reported)], running).actions).toEqual([]);
    expect(run([again(2, { generation: 0, phase: 'IDLE', port: 100 })], running).actions).toEqual([
      { type: 'say-started', generation: 3, pid: 7 },
    ]);
    const ended = run([{ type: 'disconnected' }, exit(3, 5)], running).state;
    expect(run([again(2, reported)], ended).actions).toEqual([{ type: 'say-exited', exit: exit(3, 5).exit }]);
    expect(run([again(2, { ...reported, phase: 'ENDED' })], ended).actions).toEqual([]);
    const prepared = run([{ type: 'prepare', generation: 4 }, exit(3, -1), { type: 'bound', generation: 4, port: 101 }], running).state;
    expect(run([again(2, reported)], prepared).actions).toEqual([{ type: 'say-ready', generation: 4, port: 101 }]);
  });

  it('runs one program at a time, each on a new port and in a higher generation, and takes no action after leaving', () => {
    const generation = fc.integer({ min: 1, max: 5 });
    const anyEvent = fc.oneof<fc.Arbitrary<UntimedEvent>[]>(
      fc.record({ type: fc.constant('prepare' as const), generation }),
      fc.record({ type: fc.constant('start' as const), generation, members: fc.constant([]) }),
      fc.record({
        type: fc.constant('connected' as const),
        masterAttempt: fc.integer({ min: 1, max: 3 }),
        leaseMs: fc.constant(1000),
        reported: fc.record({
          generation,
          phase: fc.constantFrom('IDLE' as const, 'RUNNING' as const, 'ENDED' as const),
          port: fc.constant(100),
        }),
      }),
      fc.constant({ type: 'disconnected' as const }),
      fc.constant({ type: 'tick' as const }),
      fc.record({ type: fc.constant('stop' as const), reason: fc.constant(''), atOnce: fc.boolean() }),
    );
    // In each round, the environment reacts at random: it completes a bind, starts a program, ends a killed program, or does nothing.
    const world = fc.constantFrom('bind', 'start', 'end', 'none');
    fc.assert(
      fc.property(fc.array(fc.tuple(anyEvent, world), { maxLength: 60 }), (turns) => {
        let state = createExecutor(0, GRACE_MS);
        let now = 0;
        let port = 100;
        let left = false;
        let lastSpawned = 0;
        const binds: number[] = [0];
        let program: { generation: number; started: boolean } | null = null;
        const ports = new Set<number>();
        const perform = (event: ExecutorEvent): void => {
          if (left) {
            return;
          }
          const next = step(state, event);
          expect(next.state.generation).toBeGreaterThanOrEqual(state.generation);
          state = next.state;
          for (const action of next.actions) {
            expect(left).toBe(false);
            if (action.type === 'bind') {
              binds.push(action.generation);
            } else if (action.type === 'leave') {
              left = true;
              if (now <= (state.leaving?.until ?? now)) {
                expect(program).toBeNull();
              }
            } else if (action.type === 'spawn') {
              expect(program).toBeNull();
              expect(ports.has(state.port)).toBe(false);
              expect(action.generation).toBeGreaterThan(lastSpawned);
              ports.add(state.port);
              lastSpawned = action.generation;
              program = { generation: action.generation, started: false };
            }
          }
        };
        for (const [happens, then] of turns) {
          now += 100;
          perform({ ...happens, now } as ExecutorEvent);
          if (then === 'bind' && binds.length > 0) {
            perform({ type: 'bound', generation: binds.shift() as number, port: port++, now });
          }
          if (then === 'start' && program !== null && !(program as { started: boolean }).started) {
            (program as { started: boolean }).started = true;
            perform({ type: 'started', generation: (program as { generation: number }).generation, pid: 1, now });
          }
          if (then === 'end' && program !== null) {
            const ended = (program as { generation: number }).generation;
            program = null;
            perform({ ...exit(ended), now });
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});
