import { expect, test } from 'vitest';
import { folderBelow, parseRemoteCommand } from './remote-shell.ts';

test.each([
  ['Open MPI', ['tony-3', ' orted', '-mca', 'ess', '"env"'], { rank: 3, command: ' orted -mca ess "env"' }],
  ['MPICH', ['-x', 'tony-1', '"/usr/bin/hydra_pmi_proxy" --rmk user'], { rank: 1, command: '"/usr/bin/hydra_pmi_proxy" --rmk user' }],
  ['options of ssh', ['-q', '-l', 'alice', '-o', 'BatchMode=yes', 'tony-2', 'true'], { rank: 2, command: 'true' }],
  ['an unknown node', ['node7', 'true'], null],
  ['no command', ['tony-2'], null],
  ['nothing', [], null],
])('parses the arguments of %s', (_, words, command) => {
  expect(parseRemoteCommand(words)).toEqual(command);
});

test.each([
  ['/c/program/1', '/c/program/1', ''],
  ['/c/program/1', '/c/program/1/sub/deeper', 'sub/deeper'],
  ['/c/program/1', '/c/program/1/..sub', '..sub'],
  ['/c/program/1', '/c/program/10', ''],
  ['/c/program/1', '/c/program', ''],
  ['', '/c', ''],
])('in a task in %s, the folder %s has the path "%s" in other tasks', (task, folder, relative) => {
  expect(folderBelow(task, folder)).toBe(relative);
});
