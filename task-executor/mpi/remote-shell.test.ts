import { expect, test } from 'vitest';
import { parseRemoteCommand } from './remote-shell.ts';

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
