import { homedir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localRoot } from './local-folder.ts';

test('the folder for local jobs is an absolute path, and an empty TONY_LOCAL_DIR counts as unset', () => {
  const standard = path.join(homedir(), '.tony-ts', 'local');
  expect([localRoot({}), localRoot({ TONY_LOCAL_DIR: '' })]).toEqual([standard, standard]);
  expect(localRoot({ TONY_LOCAL_DIR: 'jobs' })).toBe(path.resolve('jobs'));
});
