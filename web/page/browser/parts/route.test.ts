import { expect, test } from 'vitest';
import { formatRoute, parseRoute } from './route.ts';

test('the URL fragment names a section and its parameters', () => {
  expect(formatRoute('logs', 'worker:0', 'stderr')).toBe('#logs/worker:0/stderr');
  expect(parseRoute('#logs/worker:0/stderr')).toEqual({ section: 'logs', rest: ['worker:0', 'stderr'] });
  expect(parseRoute('#tasks')).toEqual({ section: 'tasks', rest: [] });
  expect(parseRoute(formatRoute('tasks', 'a/b #%'))).toEqual({ section: 'tasks', rest: ['a/b #%'] });
});

test.each(['', '#', '#nothing', '#tasks%', '#__proto__'])('%j names no section', (hash) => {
  expect(parseRoute(hash)).toBeNull();
});

test('an invalid percent escape is kept unchanged', () => {
  expect(parseRoute('#tasks/100%')).toEqual({ section: 'tasks', rest: ['100%'] });
});
