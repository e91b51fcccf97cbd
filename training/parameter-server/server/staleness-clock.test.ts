import fc from 'fast-check';
import { expect, test } from 'vitest';
import { StalenessClock } from './run-clock.ts';

type Happening = { readonly what: 'step' | 'lose' | 'return' | 'give-up' | 'finish'; readonly rank: number };

const happenings = (workers: number) =>
  fc.array(
    fc.record({
      what: fc.oneof(
        { weight: 8, arbitrary: fc.constant('step' as const) },
        fc.constantFrom('lose', 'return', 'give-up', 'finish' as const),
      ),
      rank: fc.nat(workers - 1),
    }) as fc.Arbitrary<Happening>,
    { maxLength: 300 },
  );

test('no worker is further ahead of a live worker than the staleness allows', () => {
  const world = fc.integer({ min: 1, max: 6 }).chain((workers) => fc.tuple(fc.constant(workers), fc.nat(4), happenings(workers)));
  fc.assert(
    fc.property(world, ([workers, staleness, each]) => {
      const clock = new StalenessClock(workers, staleness);
      /** The workers that have begun a step but not finished it. */
      const busy = new Set<number>();
      const began = new Array<number>(workers).fill(0);
      const ranks = began.map((_, rank) => rank);
      for (const rank of ranks) {
        clock.join(rank);
      }
      for (const { what, rank } of each) {
        const state = clock.stateOf(rank);
        if (what === 'step' && state === 'live') {
          if (busy.delete(rank)) {
            clock.finishStep(rank);
          } else if (clock.mayBegin(rank)) {
            const step = clock.stepsOf(rank);
            for (const other of ranks.filter((one) => clock.stateOf(one) === 'live' || clock.stateOf(one) === 'lost')) {
              expect(clock.stepsOf(other)).toBeGreaterThanOrEqual(step - staleness);
            }
            busy.add(rank);
          }
        } else if (what === 'lose') {
          clock.lose(rank);
          busy.delete(rank);
        } else if (what === 'return' && state !== 'finished') {
          clock.join(rank);
        } else if (what === 'give-up') {
          clock.giveUp(rank);
        } else if (what === 'finish' && state === 'live' && !busy.has(rank)) {
          clock.finish(rank);
        }
      }
    }),
  );
});

test('at least one worker may begin after the clock has given up lost workers', () => {
  const world = fc.integer({ min: 1, max: 6 }).chain((workers) => fc.tuple(fc.constant(workers), fc.nat(4), happenings(workers)));
  fc.assert(
    fc.property(world, ([workers, staleness, each]) => {
      const clock = new StalenessClock(workers, staleness);
      const ranks = Array.from({ length: workers }, (_, rank) => rank);
      for (const { what, rank } of each) {
        if (what === 'return' && clock.stateOf(rank) !== 'finished') {
          clock.join(rank);
        }
        if (what === 'lose') {
          clock.lose(rank);
        }
        if (what === 'finish' && clock.stateOf(rank) === 'live') {
          clock.finish(rank);
        }
        if (what === 'step' && clock.stateOf(rank) === 'live' && clock.mayBegin(rank)) {
          clock.finishStep(rank);
        }
      }
      for (const rank of ranks) {
        clock.giveUp(rank);
      }
      const live = ranks.filter((rank) => clock.stateOf(rank) === 'live');
      expect(live.length === 0 ? clock.over : live.some((rank) => clock.mayBegin(rank))).toBe(true);
    }),
  );
});

test('asynchronous workers never wait', () => {
  const clock = new StalenessClock(2, null);
  clock.join(0);
  for (let step = 0; step < 100; step++) {
    expect(clock.mayBegin(0)).toBe(true);
    clock.finishStep(0);
  }
  expect(clock.over).toBe(false);
});

test('a worker that returns after it was given up does not delay the others', () => {
  const clock = new StalenessClock(2, 1);
  clock.join(0);
  clock.join(1);
  clock.lose(1);
  clock.finishStep(0);
  clock.finishStep(0);
  expect(clock.mayBegin(0)).toBe(false);
  clock.giveUp(1);
  expect(clock.mayBegin(0)).toBe(true);
  clock.finishStep(0);
  clock.join(1);
  expect(clock.stepsOf(1)).toBe(3);
  expect(clock.mayBegin(0)).toBe(true);
});
