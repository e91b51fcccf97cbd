import { expect, test } from 'vitest';
import { afterKey, FIRST_VIEW, most, ordered } from './top-view.ts';

test('keys change the view, and unknown keys leave it unchanged', () => {
  expect(afterKey(FIRST_VIEW, 'q', 3)).toBe('quit');
  expect(afterKey(FIRST_VIEW, '\x03', 3)).toBe('quit');
  expect(afterKey(FIRST_VIEW, '\x1b[D', 3)).toEqual({ ...FIRST_VIEW, order: 2 });
  expect(afterKey({ ...FIRST_VIEW, order: 2, offset: 9 }, 's', 3)).toEqual(FIRST_VIEW);
  expect(afterKey(FIRST_VIEW, '\x1b[A', 3)).toEqual(FIRST_VIEW);
  expect(afterKey(FIRST_VIEW, '\x1b[B', 3)).toEqual({ ...FIRST_VIEW, offset: 1 });
  expect(afterKey({ ...FIRST_VIEW, offset: 4 }, '\x1b[5~', 3)).toEqual(FIRST_VIEW);
  expect(afterKey(FIRST_VIEW, 'r', 3)).toEqual({ ...FIRST_VIEW, reversed: true });
  expect(afterKey(FIRST_VIEW, 'x', 3)).toEqual(FIRST_VIEW);
});

test('the largest value comes first, missing values last, and equal rows keep their order', () => {
  const rows = [{ n: 1 }, { n: null }, { n: 3 }, { n: 0 }];
  const orderings = [{ name: 'n', compare: most<(typeof rows)[number]>(({ n }) => n) }];
  expect(ordered(rows, orderings, FIRST_VIEW).map(({ n }) => n)).toEqual([3, 1, 0, null]);
  expect(ordered(rows, orderings, { ...FIRST_VIEW, reversed: true }).map(({ n }) => n)).toEqual([null, 0, 1, 3]);
  expect(ordered(rows, [{ name: 'as they are', compare: () => 0 }], FIRST_VIEW)).toEqual(rows);
});
