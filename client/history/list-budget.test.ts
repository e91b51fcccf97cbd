import { expect, test } from 'vitest';
import { ListBudget } from './list-budget.ts';

const LIMITS = { userBytes: 100, userMs: 1_000, ms: 10_000 };

test("the budget rejects reads that exceed a user's share of the bytes", () => {
  const budget = new ListBudget(LIMITS, () => 0);
  expect([budget.take('mallory', 60), budget.take('mallory', 60), budget.take('mallory', 1)]).toEqual([true, false, false]);
  expect([budget.take('alice', 99), budget.take('alice', 1)]).toEqual([true, true]);
  budget.takeMore('bob', 150);
  expect(budget.take('bob', 1)).toBe(false);
});

test('the time of a read counts against its users in proportion to their bytes, and against the total', () => {
  let now = 0;
  const budget = new ListBudget(LIMITS, () => now);
  budget.spend(1_100, [
    { user: 'mallory', bytes: 99 },
    { user: 'alice', bytes: 1 },
    { user: 'bob', bytes: 0 },
  ]);
  expect(['mallory', 'alice', 'bob'].map((user) => budget.isOver(user))).toEqual([true, false, false]);
  expect([budget.take('mallory', 1), budget.take('alice', 1)]).toEqual([false, true]);
  now = 10_000;
  expect(budget.take('bob', 1)).toBe(false);
});

test('the message states the number of omitted jobs by user, largest number first', () => {
  const budget = new ListBudget(LIMITS, () => 0);
  expect(budget.message).toBe('');
  for (const [user, count] of [
    ['a', 1],
    ['b', 5],
    ['c', 3],
    ['d', 1],
    ['e', 2],
  ] as const) {
    for (let each = 0; each < count; each++) {
      budget.leaveOut(user);
    }
  }
  expect(budget.message).toBe(
    'Some histories are omitted because reading them takes too long: 5 of b, 3 of c, 2 of e, 2 of 2 other users.',
  );
});
