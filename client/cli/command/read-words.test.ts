import { expect, test } from 'vitest';
import { COMMAND_LINE } from '../command-line.ts';
import type { Command } from './command.ts';
import { argumentsOf, readWords } from './read-words.ts';

function check(...words: string[]): Readonly<Record<string, unknown>> {
  return argumentsOf(readWords(COMMAND_LINE, words));
}

test.each([
  ['an unknown command is reported before its options', ['bogus', '--output', 'json'], 'There is no command "bogus".'],
  ['an unknown command after options', ['--output', 'json', 'lst'], 'There is no command "lst"; did you mean "list"?'],
  [
    'a word after an unknown option is not read as a command',
    ['history', '--limt', '5'],
    'There is no option --limt; did you mean --limit?',
  ],
  ['an option of another command', ['status', 'local_1_0001', '--conf', 'x'], 'There is no option --conf'],
  ['an option that is misspelled', ['submit', '--lcoal'], 'There is no option --lcoal; did you mean --local?'],
  ['a misspelled short option', ['list', '-ax'], 'There is no option -x'],
  ['an option in place of a value', ['submit', '--conf', '--local'], '--conf requires a value.'],
  [
    'an option in place of a value that may start with a dash',
    ['import', 'tony.xml', '--task-params', '--to', 'job.yaml'],
    '--task-params requires a value.',
  ],
  ['-- in place of a value', ['submit', '--name', '--', 'node', 'train.ts'], '--name requires a value.'],
  [
    '-- in place of a value before other words',
    ['exec', 'local_1_0001', 'worker:0', '--staging', '--', 'ls', '-l'],
    '--staging requires a value.',
  ],
  ['a value that is not one of the choices', ['history', '--state', 'failde'], 'not failde; did you mean failed?'],
  ['a flag with a value that yargs would read as false', ['history', 'prune', '--dry-run=yes'], '--dry-run accepts only true or false'],
  ['a negated flag with a value other than true or false', ['history', 'prune', '--no-dry-run=0'], 'There is no option --no-dry-run'],
  ['a flag with an empty value', ['history', 'prune', '--dry-run='], '--dry-run accepts only true or false'],
  ['options that cannot be combined', ['list', '--user', 'bob', '-A'], '--all-users and --user cannot be combined.'],
  [
    'an option of a new notebook, and a running notebook',
    ['notebook', 'local_1_0001', '--detach'],
    '--detach and local_1_0001 cannot be combined.',
  ],
  [
    'an option and a positional that cannot be combined',
    ['top', 'local_1_0001', '--all-users'],
    '--all-users and local_1_0001 cannot be combined.',
  ],
  [
    'a single-value option that is given twice',
    ['submit', '--conf', 'a', '--conf=b'],
    '--conf is given twice, but accepts only one value.',
  ],
  ['text where a number is expected', ['logs', 'local_1_0001', '--tail', 'x'], '--tail requires a whole number from 1 to 1000000, not x.'],
  ['a number out of range', ['init', '--gpus', '-1'], '--gpus requires a whole number of at least 0, not -1.'],
  [
    'a short flag with a value that yargs would read as false',
    ['logs', 'local_1_0001', '-f=yes'],
    '--follow accepts only true or false, not yes.',
  ],
  ['a flag joined to a number', ['logs', 'local_1_0001', '-f5'], '--follow accepts only true or false, not 5.'],
  ['a fraction', ['history', '--limit=1.5'], '--limit requires a whole number from 1 to 100000, not 1.5.'],
  ['an empty number', ['history', '--limit='], '--limit requires a value that is not empty.'],
  ['a missing subcommand', ['runtime'], 'A command is missing: tony-ts runtime COMMAND.'],
  ['an option after --', ['status', '--', '--local'], 'Unexpected argument "--local".'],
])('%s', (_, words, message) => {
  expect(() => check(...words)).toThrow(message);
});

test('an option takes the next word as its value, unless that word is an option of the command', () => {
  expect(check('import', 'tony.xml', '--task-params', '--a 1', '--executes', '-m train')).toMatchObject({
    configuration: 'tony.xml',
    taskParams: '--a 1',
    executes: '-m train',
  });
  for (const value of ['--rate=0.1', '-v 2', '-h 4', '-v2', '--debug no', '-x']) {
    expect(check('import', 'tony.xml', '--task-params', value)).toMatchObject({ taskParams: value, verbose: false });
  }
  expect(check('import', 'tony.xml', '--task-params=--to')).toMatchObject({ taskParams: '--to' });
});

test('each value of a list needs its own option', () => {
  expect(check('events', '--type', 'task', '--type', 'job', 'local_1_0001')).toMatchObject({
    type: ['task', 'job'],
    job: 'local_1_0001',
  });
  expect(() => check('events', '--type', 'task', 'job', 'local_1_0001')).toThrow('Unexpected argument "local_1_0001".');
});

test('values have the types that their options declare, and defaults where none are typed', () => {
  expect(check('logs', 'local_1_0001', '-f=true')).toMatchObject({ follow: true });
  const { help, verbose, ...args } = check('history', 'prune', '--dry-run=true', '--all-users=false', '--older-than', '2h', '-v');
  expect([help, verbose]).toEqual([undefined, true]);
  expect(args).toEqual({
    dryRun: true,
    allUsers: false,
    olderThan: 7_200_000,
    local: false,
    output: 'table',
    debug: false,
    version: undefined,
    resourceManager: undefined,
    staging: undefined,
  });
  expect(check('logs', 'local_1_0001', '--tail', '5')).toMatchObject({ tail: 5, task: undefined, follow: false });
  expect(check('runtime', 'path', '--node', '22')).toMatchObject({ node: 22, gpu: false });
  expect(check('history', '--state', 'failed')).toMatchObject({ state: 'failed' });
  expect(check('tensorboard', 'local_1_0001', '--no-open')).toMatchObject({ open: false });
});

test('a short option has the meaning that its command gives it', () => {
  expect(check('submit', '-f', 'a.yaml', '-d', '-o', 'json')).toMatchObject({ conf: 'a.yaml', detach: true, output: 'json' });
  expect(check('submit', '--file=a.yaml')).toMatchObject({ conf: 'a.yaml' });
  expect(check('logs', '-f', 'local_1_0001', '-n5')).toMatchObject({ follow: true, job: 'local_1_0001', tail: 5 });
  expect(check('submit', 'a.yaml', '-q')).toMatchObject({ jobFile: 'a.yaml', conf: undefined, quiet: true });
  expect(() => check('submit', 'a.yaml', '-f', 'b.yaml')).toThrow('--conf and a.yaml cannot be combined.');
  expect(() => check('submit', '-f')).toThrow('--conf requires a value.');
  expect(() => check('status', '-f', 'local_1_0001')).toThrow('There is no option -f.');
});

test('options may precede the command', () => {
  expect(check('--output', 'json', '--local', 'list')).toMatchObject({ output: 'json', local: true });
});

test('words that look like numbers remain text', () => {
  expect(check('list', '--name', '007', '--queue', '1e3')).toMatchObject({ name: '007', queue: '1e3' });
  expect(check('submit', '--', 'python3', '010')).toMatchObject({ command: ['python3', '010'] });
});

test('words after -- are not options', () => {
  expect(check('logs', '-f', '--', 'local_1_0001')).toMatchObject({ follow: true, job: 'local_1_0001' });
  expect(check('exec', 'local_1_0001', 'worker:0', '--', 'ls', '-l', '--', 'x')).toMatchObject({ command: ['ls', '-l', '--', 'x'] });
});

test('a command that runs a program takes all words after --', () => {
  const words = ['node', 'train.ts', '--conf', '--', '-1'];
  expect(check('submit', '--local', '--', ...words)).toMatchObject({ local: true, command: words, conf: undefined });
  expect(() => check('submit', '--')).toThrow('A command is missing after --.');
  expect(() => check('submit', 'node', 'train.ts')).toThrow(
    expect.objectContaining({
      message: 'Unexpected argument "train.ts".',
      hint: expect.stringContaining('tony-ts submit -- node train.ts'),
    }),
  );
});

test('every command reads the options of one name in the same way', () => {
  const kinds = new Map<string, Set<string>>();
  const visit = ({ options, commands }: Command): void => {
    for (const { name, aliases, isFlag } of options) {
      kinds.set(name, (kinds.get(name) ?? new Set()).add(`${isFlag} ${aliases}`));
    }
    commands.forEach(visit);
  };
  visit(COMMAND_LINE);
  expect([...kinds].filter(([, each]) => each.size > 1)).toEqual([]);
});
