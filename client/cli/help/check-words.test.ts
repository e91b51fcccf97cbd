import { expect, test } from 'vitest';
import { describeCommandLine } from '../command-line.ts';
import { checkWords } from './check-words.ts';

const root = describeCommandLine();

function check(...words: string[]): readonly string[] {
  return checkWords(root, words);
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
  ['a misspelled short option', ['list', '-ax'], 'There is no option -ax'],
  ['an option in place of a value', ['submit', '--conf', '--local'], '--conf requires a value.'],
  [
    'an option in place of a value that may start with a dash',
    ['import', 'tony.xml', '--task-params', '--to', 'job.yaml'],
    '--task-params requires a value.',
  ],
  ['a value that is not one of the choices', ['history', '--state', 'failde'], 'not failde; did you mean FAILED?'],
  ['a flag with a value that yargs would read as false', ['history', 'prune', '--dry-run=yes'], '--dry-run accepts only true or false'],
  [
    'a negated flag with a value other than true or false',
    ['history', 'prune', '--no-dry-run=0'],
    '--no-dry-run accepts only true or false',
  ],
  ['a flag with an empty value', ['history', 'prune', '--dry-run='], '--dry-run accepts only true or false'],
  ['options that cannot be combined', ['list', '--user', 'bob', '-a'], '-a and --user cannot be combined.'],
  [
    'an option of a new notebook, and a running notebook',
    ['notebook', 'local_1_0001', '--detach'],
    '--detach and local_1_0001 cannot be combined.',
  ],
  ['an option and a positional that cannot be combined', ['top', 'local_1_0001', '--all'], '--all and local_1_0001 cannot be combined.'],
  [
    'a single-value option that is given twice',
    ['submit', '--conf', 'a', '--conf=b'],
    '--conf is given twice, but accepts only one value.',
  ],
  ['text where a number is expected', ['logs', 'local_1_0001', '--tail', 'x'], '--tail requires a whole number from 1 to 1000000, not x.'],
  ['a number out of range', ['init', '--gpus', '-1'], '--gpus requires a whole number of at least 0, not -1.'],
  ['a fraction', ['history', '--limit=1.5'], '--limit requires a whole number from 1 to 100000, not 1.5.'],
  ['an empty number', ['history', '--limit='], '--limit requires a whole number from 1 to 100000, not "".'],
  ['a missing subcommand', ['quotas', 'emit'], 'A command is missing: tony-ts quotas emit COMMAND.'],
  ['an option after --', ['status', '--', '--local'], 'Unexpected argument "--local".'],
])('%s', (_, words, message) => {
  expect(() => check(...words)).toThrow(message);
});

test('a value that starts with a dash is joined to its option by an equals sign', () => {
  expect(check('import', 'tony.xml', '--task-params', '--a 1', '--executes', '-m train')).toEqual([
    'import',
    'tony.xml',
    '--task-params=--a 1',
    '--executes=-m train',
  ]);
  expect(check('import', 'tony.xml', '--task-params', '--rate=0.1')).toEqual(['import', 'tony.xml', '--task-params=--rate=0.1']);
  expect(check('import', 'tony.xml', '--task-params=--to')).toEqual(['import', 'tony.xml', '--task-params=--to']);
});

test('each value of a list needs its own option', () => {
  expect(check('events', '--type', 'task', '--type', 'job', 'local_1_0001')).toHaveLength(6);
  expect(() => check('events', '--type', 'task', 'job', 'local_1_0001')).toThrow('Unexpected argument "local_1_0001".');
});

test('a flag accepts the values true and false', () => {
  expect(check('history', 'prune', '--dry-run=true', '--all=false')).toEqual(['history', 'prune', '--dry-run=true', '--all=false']);
});

test('words after -- are not options', () => {
  expect(check('logs', '-f', '--', 'local_1_0001')).toEqual(['logs', '-f', 'local_1_0001']);
});

test('a command that runs a program takes all words after --', () => {
  const words = ['submit', '--local', '--', 'node', 'train.ts', '--conf', '--', '-1'];
  expect(check(...words)).toEqual(words);
  expect(() => check('submit', '--')).toThrow('A command is missing after --.');
  expect(() => check('submit', 'node', 'train.ts')).toThrow(
    expect.objectContaining({ message: 'Unexpected argument "node".', hint: expect.stringContaining('tony-ts submit -- node') }),
  );
});

test('a command line with --help is not checked', () => {
  expect(check('submit', '--no-such', '--help')).toEqual(['submit', '--no-such', '--help']);
});
