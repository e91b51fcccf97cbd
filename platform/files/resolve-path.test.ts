import { homedir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { resolvePath } from './resolve-path.ts';

test.each([
  ['~', homedir()],
  ['~/a/b', join(homedir(), 'a/b')],
  ['~user/a', '/conf/~user/a'],
  ['a/~', '/conf/a/~'],
  ['../a', '/a'],
  ['/a/../b', '/b'],
])('the path %s in a file in /conf is %s', (path, expected) => {
  expect(resolvePath(path, '/conf')).toBe(expected);
});
