import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Command, defineCommand, defineGroup } from '../command/command.ts';
import { COMMAND_LINE } from '../command-line.ts';
import { VALUES, type Wanted, wantedAt } from './complete.ts';

const root = COMMAND_LINE;

function words(wanted: Wanted): string[] {
  return wanted.kind === 'words' ? wanted.candidates.map(({ value }) => value) : [`value of ${wanted.name}`];
}

test('offers commands and subcommands with their descriptions', () => {
  expect(words(wantedAt(root, ['']))).toEqual(expect.arrayContaining(['submit', 'logs', 'completion']));
  expect(words(wantedAt(root, ['history', '']))).toEqual(expect.arrayContaining(['list', 'show']));
  expect(wantedAt(root, [''])).toMatchObject({
    candidates: expect.arrayContaining([{ value: 'list', describe: expect.stringMatching(/./) }]),
  });
});

test('offers options, including those of a default subcommand, but no option twice unless it takes a list', () => {
  expect(words(wantedAt(root, ['submit', '--']))).toEqual(expect.arrayContaining(['--conf', '--set', '--local', '--output', '--help']));
  expect(words(wantedAt(root, ['submit', '--conf', 'x', '--set', 'a=1', '--local', '--']))).toContain('--set');
  expect(words(wantedAt(root, ['submit', '--conf', 'x', '--set', 'a=1', '--local', '--']))).not.toContain('--conf');
  expect(words(wantedAt(root, ['submit', '--set', 'a=1', '--local', '--']))).not.toContain('--local');
  expect(words(wantedAt(root, ['history', '--']))).toContain('--user');
  expect(words(wantedAt(root, ['logs', 'application_1_0001', '-']))).toEqual(expect.arrayContaining(['-f', '--follow', '--tail']));
  expect(words(wantedAt(root, ['tensorboard', 'x', '--']))).toContain('--no-open');
  // `submit` takes words only after `--`, so `wantedAt` suggests its options.
  expect(words(wantedAt(root, ['submit', 'job.yaml', '']))).toContain('--detach');
});

test('offers the choices of an option, and requests other values by the name of their option or positional', () => {
  expect(words(wantedAt(root, ['status', 'x', '--output', '']))).toEqual(['table', 'json', 'yaml']);
  expect(words(wantedAt(root, ['status', 'x', '--output=j']))).toEqual(['--output=table', '--output=json', '--output=yaml']);
  expect(words(wantedAt(root, ['completion', '']))).toEqual(['bash', 'zsh', 'fish']);
  expect(words(wantedAt(root, ['submit', '--conf', '']))).toEqual(['value of conf']);
  expect(wantedAt(root, ['submit', '--conf=jo'])).toMatchObject({ kind: 'value', name: 'conf', prefix: '--conf=' });
  expect(wantedAt(root, ['logs', '--resource-manager', 'rm:8088', 'application_1_0001', 'wor'])).toMatchObject({
    kind: 'value',
    name: 'task',
    command: 'logs',
    positionals: ['application_1_0001'],
    values: { 'resource-manager': 'rm:8088' },
  });
  expect(words(wantedAt(root, ['kill', 'a', '']))).not.toContain('value of job');
});

test('wantedAt accepts any words without an error', () => {
  const known = everyWord(root);
  const word = fc.oneof(fc.constantFrom(...known), fc.string({ maxLength: 8 }), fc.constantFrom('--', '-', '', '--=', '--conf='));
  fc.assert(fc.property(fc.array(word, { maxLength: 8 }), (typed) => void wantedAt(root, typed)));
});

test('every name in VALUES is an option or a positional of a command', () => {
  const names = everyName(root);
  for (const name of Object.keys(VALUES)) {
    expect(names).toContain(name);
  }
});

test('a command describes its positionals and options, and a group the options of its default subcommand', () => {
  const show = defineCommand({
    command: 'show <id> [more..]',
    describe: 'Show it',
    positionals: { id: { choices: [1, 2], describe: 'Which' } },
    options: { deep: { type: 'boolean', default: true, alias: 'd' } },
    handler: async () => {},
  });
  expect(show).toMatchObject({
    name: 'show',
    describe: 'Show it',
    positionals: [
      { name: 'id', describe: 'Which', required: true, repeats: false, choices: ['1', '2'] },
      { name: 'more', describe: '', required: false, repeats: true, choices: [] },
    ],
    options: [{ name: 'deep', aliases: ['d'], describe: '', isFlag: true, isList: false, choices: [], on: true, fallback: '' }],
    commands: [],
  });
  const group = defineGroup('', 'A group', [show], show);
  expect(words(wantedAt(group, ['--']))).toEqual(['--no-deep']);
  expect(words(wantedAt(group, ['show', '--']))).toEqual(['--no-deep']);
});

function everyWord(command: Command): string[] {
  return [command.name, ...command.options.map(({ name }) => `--${name}`), ...command.commands.flatMap(everyWord)];
}

function everyName(command: Command): string[] {
  return [...command.options, ...command.positionals].map(({ name }) => name).concat(command.commands.flatMap(everyName));
}
