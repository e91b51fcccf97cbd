import type { Command, Option, Positional } from '../client/cli/command/command.ts';
import { COMMAND_LINE } from '../client/cli/command-line.ts';
import { CLUSTER_OPTIONS, OUTPUT_OPTION } from '../client/cli/commands/shared-options.ts';

/** Options that most commands share. The page describes them once. */
const SHARED = new Set(Object.keys({ ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }));

/** Generates docs/commands.md, which lists the commands with their arguments and options. */
export function commandPage(): string {
  const { commands, options } = COMMAND_LINE;
  const shared = new Map(commands.flatMap((command) => command.options).map((option) => [option.name, option]));
  const always = options.filter(({ name }) => name !== 'version');
  const everywhere = [...always, ...[...SHARED].flatMap((name) => shared.get(name) ?? [])];
  const lines = [
    '# Commands, one by one',
    '',
    'This page lists the arguments and options that `tony-ts COMMAND --help` shows.',
    '[command-line.md](command-line.md) explains how to use the commands together.',
    'Before a command does anything, it checks all arguments and options, and rejects options that would have no effect.',
    '',
    `Every command accepts ${new Intl.ListFormat('en').format(always.map(({ name }) => `\`--${name}\``))}. A line that begins with "Also accepts" lists which of the remaining options in the following table the command accepts as well.`,
    '',
    ...tableOf(everywhere.map((option) => optionRow(option, []))),
    ...commands.flatMap((command) => sectionOf(command, [])),
  ];
  return `${lines.join('\n')}\n`;
}

/** Returns the command at the start of `words`. Returns null if there is no such command or if it takes fewer arguments. */
export function commandOf(root: Command, words: readonly string[]): Command | null {
  const end = words.findIndex((word) => word.startsWith('-'));
  const plain = end < 0 ? words : words.slice(0, end);
  let found = root;
  let taken = 0;
  for (const word of plain) {
    const next = found.commands.find(({ name }) => name === word);
    if (next === undefined) {
      break;
    }
    found = next;
    taken++;
  }
  // If the subcommand is optional, the command accepts the options of its default subcommand.
  const command = found.otherwise ?? found;
  return found === root || plain.length - taken > command.positionals.length ? null : command;
}

function sectionOf(command: Command, parents: readonly string[]): string[] {
  const { name, describe, positionals, options, commands } = command;
  const words = [...parents, name];
  const places = positionals.map(({ name: place, followsDashes, required, repeats }) => {
    const word = `${place}${repeats ? '...' : ''}`;
    return followsDashes ? `[-- ${word}]` : required ? `\\<${word}>` : `[${word}]`;
  });
  const own = options.filter((option) => !SHARED.has(option.name));
  const shared = options.filter((option) => SHARED.has(option.name)).map((option) => `\`--${option.name}\``);
  const rows = [...positionals.map(positionalRow), ...own.map((option) => optionRow(option, positionals))];
  return [
    '',
    `## ${['tony-ts', ...words, ...places].join(' ')}`,
    '',
    `${cell(describe)}.`,
    ...(rows.length === 0 ? [] : ['', ...tableOf(rows)]),
    ...(shared.length === 0 ? [] : ['', `Also accepts ${shared.join(', ')}.`]),
    ...commands.flatMap((each) => sectionOf(each, words)),
  ];
}

type Row = readonly [name: string, describe: string, value: string];

function positionalRow({ name, describe, choices }: Positional): Row {
  return [name, describe, choices.join(', ')];
}

function optionRow(option: Option, positionals: readonly Positional[]): Row {
  const { name, aliases, describe, choices, fallback, on, isList, needs, excludes } = option;
  const names = [`--${on ? 'no-' : ''}${name}`, ...aliases.map((alias) => `-${alias}`)];
  const others = excludes.map((other) => (positionals.some((place) => place.name === other) ? `\`${other}\`` : `\`--${other}\``));
  const values = [
    choices.join(', '),
    fallback === '' ? '' : `default \`${fallback}\``,
    isList ? 'may be repeated' : '',
    needs === null ? '' : `only with \`--${needs}\``,
    others.length === 0 ? '' : `not with ${new Intl.ListFormat('en', { type: 'disjunction' }).format(others)}`,
  ];
  return [
    names.join(', '),
    on ? `Do not ${describe.charAt(0).toLowerCase()}${describe.slice(1)}` : describe,
    values.filter((each) => each !== '').join('; '),
  ];
}

function tableOf(rows: readonly Row[]): string[] {
  return [
    '| | | |',
    '| --- | --- | --- |',
    ...rows.map(([name, describe, value]) => `| \`${name}\` | ${cell(describe)} | ${cell(value)} |`),
  ];
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '\\<').replace(/\s+/g, ' ');
}
