import { expect, test } from 'vitest';
import { formatRoute, parseRoute } from './route.ts';

test('an address names a section and what it shows first', () => {
  expect(formatRoute('logs', 'worker:0', 'stderr')).toBe('#logs/worker:0/stderr');
  expect(parseRoute('#logs/worker:0/stderr')).toEqual({ section: 'logs', rest: ['worker:0', 'stderr'] });
  expect(parseRoute('#tasks')).toEqual({ section: 'tasks', rest: [] });
  expect(parseRoute(formatRoute('tasks', 'a/b #%'))).toEqual({ section: 'tasks', rest: ['a/b #%'] });
});

test.each(['', '#', '#nothing', '#tasks%', '#__proto__'])('%j names none', (hash) => {
  expect(parseRoute(hash)).toBeNull();
});

test('what is no escape is taken as it stands', () => {
  expect(parseRoute('#tasks/100%')).toEqual({ section: 'tasks', rest: ['100%'] });
});
