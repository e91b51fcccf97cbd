import { Parser } from 'yargs/helpers';
import { TonyError } from '../../../platform/errors.ts';
import { suggest } from '../../../platform/text/suggest.ts';
import type { Command, Option, Positional } from './command.ts';

/** What the user typed, as yargs's parser reads it. */
export interface ReadWords {
  /** Commands that the user typed, starting with `tony-ts`. */
  readonly path: readonly Command[];
  /** Last command that the user typed, or its default subcommand. */
  readonly runs: Command;
  /** Options that the command accepts. */
  readonly known: readonly Option[];
  /** Typed options by their names: true or false for a flag, and all values of other options. May contain unknown options. */
  readonly given: ReadonlyMap<string, boolean | readonly string[]>;
  /** Words that are not options. If `rest` is null, they include the words after `--`. */
  readonly positionals: readonly string[];
  /** Words after `--`. Null if there is no `--`, or if the command has no positional for these words. */
  readonly rest: readonly string[] | null;
  readonly unknownCommand: string | undefined;
  /** The option at the end of the words whose value is missing, or null. */
  readonly lacksValue: Option | null;
  /** The words before `--`. */
  readonly words: readonly string[];
}

/** Sorts the words of a command line into commands, options and positionals. Options may precede the command. */
export function readWords(root: Command, words: readonly string[]): ReadWords {
  // An option whose value is missing must not take `--` as its value.
  const end = words.indexOf('--');
  const [front, behind] = end < 0 ? [words, null] : [words.slice(0, end), words.slice(end + 1)];
  const all = optionsBelow(root);
  // A short option may belong to different options of different commands, so the command must be known before the options can be.
  const { path, unknownCommand } = pathOf(root, parse(front, spellings(all)).positionals);
  const last = path.at(-1) ?? root;
  const runs = last.otherwise ?? last;
  const known = [...last.options, ...(last.otherwise?.options ?? []), ...(last === root ? [] : root.options)];
  const names = new Set(known.map(({ name }) => name));
  const others = all.filter(({ name }) => !names.has(name)).map((option) => ({ ...option, aliases: [] }));
  const { positionals: before, typed, lacksLast } = parse(front, [...known, ...others]);
  const rest = runs.positionals.some(({ followsDashes }) => followsDashes) ? behind : null;
  return {
    path,
    runs,
    known,
    given: new Map(Object.entries(typed).map(([name, value]) => [name, typeof value === 'boolean' ? value : [value].flat().map(String)])),
    positionals: [...before, ...(rest === null && behind !== null ? behind : [])].slice(path.length - 1),
    rest,
    unknownCommand,
    lacksValue: (lacksLast && known.find((option) => !option.isFlag && isSpelling(option, front.at(-1) ?? ''))) || null,
    words: front,
  };
}

type Spelled = Pick<Option, 'name' | 'aliases' | 'isFlag'>;

/** Returns each spelling as an option of its own, which takes a value if it does in any command. */
function spellings(options: readonly Option[]): Spelled[] {
  const isFlag = new Map<string, boolean>();
  for (const option of options) {
    for (const name of [option.name, ...option.aliases]) {
      isFlag.set(name, option.isFlag && (isFlag.get(name) ?? true));
    }
  }
  return [...isFlag].map(([name, flag]) => ({ name, aliases: [], isFlag: flag }));
}

function parse(words: readonly string[], options: readonly Spelled[]) {
  const valued = options.filter(({ isFlag }) => !isFlag);
  const { argv, error } = Parser.detailed([...words], {
    boolean: options.filter(({ isFlag }) => isFlag).map(({ name }) => name),
    string: valued.map(({ name }) => name),
    // As in other programs, an option that takes a value takes the next word.
    narg: Object.fromEntries(valued.map(({ name }) => [name, 1])),
    alias: Object.fromEntries(options.map(({ name, aliases }) => [name, [...aliases]])),
    configuration: {
      'camel-case-expansion': false,
      'dot-notation': false,
      'nargs-eats-options': true,
      'parse-numbers': false,
      'parse-positional-numbers': false,
      'strip-aliased': true,
    },
  });
  const { _: positionals, ...typed } = argv as { readonly _: string[] } & Record<string, unknown>;
  return { positionals, typed, lacksLast: error !== null };
}

function optionsBelow(command: Command): Option[] {
  return [...command.options, ...command.commands.flatMap(optionsBelow)];
}

function pathOf(root: Command, words: readonly string[]): { path: Command[]; unknownCommand: string | undefined } {
  const path = [root];
  for (const word of words) {
    const above = path.at(-1) ?? root;
    const next = above.commands.find(({ name }) => name === word);
    if (next === undefined) {
      const isUnknown = above.commands.length > 0 && (above.otherwise?.positionals.length ?? 0) === 0;
      return { path, unknownCommand: isUnknown ? word : undefined };
    }
    path.push(next);
  }
  return { path, unknownCommand: undefined };
}

function isSpelling({ name, aliases }: Option, word: string): boolean {
  return word === `--${name}` || aliases.some((alias) => word === (alias.length === 1 ? `-${alias}` : `--${alias}`));
}

/**
 * Checks the words of a command line. Returns the arguments for the command's handler, with their default values.
 * @throws TonyError USAGE for an unknown command or option, a missing or invalid value, a missing argument, or an unexpected argument
 */
export function argumentsOf(read: ReadWords): Readonly<Record<string, unknown>> {
  checkCommand(read);
  checkNames(read);
  checkWords(read);
  checkValues(read);
  checkPositionals(read);
  checkCombinations(read);
  const args: Record<string, unknown> = {};
  for (const option of read.known) {
    const given = read.given.get(option.name);
    const values = typeof given === 'object' ? given.map(option.convert) : given;
    args[camelCase(option.name)] =
      values === undefined ? option.settings.default : option.isList || option.isFlag ? values : [values].flat()[0];
  }
  const words = [...read.positionals];
  for (const { name, repeats, followsDashes, settings } of read.runs.positionals) {
    const value = followsDashes ? (read.rest ?? []) : repeats ? words.splice(0) : words.shift();
    args[camelCase(name)] = value ?? settings.default;
  }
  return args;
}

function camelCase(name: string): string {
  return name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}

function checkNames({ path, known, given }: ReadWords): void {
  for (const [name, value] of given) {
    // Only a flag can be switched off by `--no-NAME`.
    if (known.some((option) => option.name === name && (option.isFlag || value !== false))) {
      continue;
    }
    const spelling = value === false ? `no-${name}` : name;
    const meant = suggest(
      spelling,
      known.map((option) => option.name),
    );
    const typed = `${spelling.length === 1 ? '-' : '--'}${spelling}`;
    throw new TonyError('USAGE', `There is no option ${typed}${meant === undefined ? '.' : `; did you mean --${meant}?`}`, {
      hint: helpHint(path),
    });
  }
}

/** Checks what the result of the parser no longer shows: whether an option stands in place of a value, and the text after a flag. */
function checkWords({ path, known, words, lacksValue }: ReadWords): void {
  let isValueOf: Option | undefined;
  for (const word of words) {
    if (isValueOf !== undefined && known.some((option) => isSpelling(option, word.split('=')[0] ?? ''))) {
      throw withoutValue(path, isValueOf);
    }
    if (isValueOf === undefined) {
      checkFlag(path, known, word);
    }
    isValueOf = isValueOf === undefined ? known.find((option) => !option.isFlag && isSpelling(option, word)) : undefined;
  }
  if (lacksValue !== null) {
    throw withoutValue(path, lacksValue);
  }
}

function withoutValue(path: readonly Command[], { name }: Option): TonyError {
  return new TonyError('USAGE', `--${name} requires a value.`, {
    hint: `See ${nameOf(path)} --help. If the value begins with a dash, write --${name}=-x.`,
  });
}

function checkValues({ path, known, given }: ReadWords): void {
  const hint = helpHint(path);
  for (const option of known) {
    const values = given.get(option.name);
    if (typeof values !== 'object') {
      continue;
    }
    for (const value of values) {
      checkValue(option, value, hint);
    }
    if (values.length > 1 && !option.isList) {
      throw new TonyError('USAGE', `--${option.name} is given twice, but accepts only one value.`, { hint });
    }
  }
}

function checkValue({ name, choices, parse, convert }: Option, value: string, hint: string): void {
  // An empty value usually comes from an unset shell variable.
  if (value === '') {
    throw new TonyError('USAGE', `--${name} requires a value that is not empty.`, { hint });
  }
  parse?.(value, `--${name}`);
  if (choices.length > 0 && !choices.includes(String(convert(value)))) {
    throw impossibleChoice(`--${name}`, choices, value, hint);
  }
}

/** yargs treats every value except `true` as false. With `--dry-run=yes`, it would therefore submit the job. */
function checkFlag(path: readonly Command[], known: readonly Option[], word: string): void {
  // `--flag=value`, or short flags followed by other text, such as `-f5`
  const [, name = '', value = ''] = /^(--[^=]*|-[A-Za-z]+)=(.*)$/s.exec(word) ?? /^(-[A-Za-z])[A-Za-z]*([^A-Za-z].*)$/s.exec(word) ?? [];
  const flag = known.find((option) => option.isFlag && isSpelling(option, name));
  if (flag !== undefined && value !== 'true' && value !== 'false') {
    throw new TonyError('USAGE', `--${flag.name} accepts only true or false, not ${value === '' ? '""' : value}.`, {
      hint: helpHint(path),
    });
  }
}

function checkPositionals({ path, runs, positionals: words, rest }: ReadWords): void {
  const places = runs.positionals.filter(({ followsDashes }) => !followsDashes);
  const lacking = places.filter(({ required }) => required)[words.length];
  const name = nameOf(path);
  if (lacking !== undefined) {
    throw new TonyError('USAGE', `${name} requires ${describePlace(lacking)}.`, {
      hint: lacking.name === 'job' ? '' : helpHint(path),
    });
  }
  if (runs.commands.length > 0 && words.length === 0) {
    throw new TonyError('USAGE', `A command is missing: ${name} COMMAND.`, { hint: commandsHint(path) });
  }
  if (rest?.length === 0) {
    throw new TonyError('USAGE', 'A command is missing after --.', { hint: helpHint(path) });
  }
  const repeated = places.findIndex(({ repeats }) => repeats);
  const fixed = repeated < 0 ? words : words.slice(0, repeated);
  const further = fixed.find((word, at) => at >= places.length || /^-[^\d.]/.test(word));
  if (further !== undefined) {
    throw new TonyError('USAGE', `Unexpected argument "${further}".`, {
      hint:
        places.length < runs.positionals.length
          ? `To run a command, write -- before it, as in ${name} -- ${words.join(' ')}.`
          : helpHint(path),
    });
  }
  for (const [at, { name: place, choices, parse, repeats }] of places.entries()) {
    for (const word of words.slice(at, repeats ? undefined : at + 1)) {
      if (word === '') {
        throw new TonyError('USAGE', `${place.toUpperCase()} must not be empty.`, { hint: helpHint(path) });
      }
      parse?.(word, place.toUpperCase());
      if (choices.length > 0 && !choices.includes(word)) {
        throw impossibleChoice(place.toUpperCase(), choices, word, helpHint(path));
      }
    }
  }
}

function checkCombinations({ path, runs, known, given, positionals }: ReadWords): void {
  const hint = helpHint(path);
  const isOn = (name: string): boolean => (given.get(name) ?? false) !== false;
  for (const { name, excludes, needs } of known.filter((option) => isOn(option.name))) {
    for (const other of excludes) {
      const place = runs.positionals.findIndex((each) => each.name === other);
      const conflicting = place >= 0 ? positionals[place] : isOn(other) ? `--${other}` : undefined;
      if (conflicting !== undefined) {
        throw new TonyError('USAGE', `--${name} and ${conflicting} cannot be combined.`, { hint });
      }
    }
    if (needs !== null && !isOn(needs)) {
      throw new TonyError('USAGE', `--${name} has no effect without --${needs}.`, {
        hint: `Add --${needs}. See ${nameOf(path)} --help.`,
      });
    }
  }
}

/** @throws TonyError USAGE if there is no such command */
export function checkCommand({ path, unknownCommand: word }: ReadWords): void {
  if (word === undefined) {
    return;
  }
  const commands = path.at(-1)?.commands ?? [];
  const meant = commands.find(({ foreignNames }) => foreignNames.includes(word))?.name ?? suggest(word, commandNames(path));
  const what = path.length === 1 ? `no command "${word}"` : `no "${nameOf(path)} ${word}"`;
  throw new TonyError('USAGE', `There is ${what}${meant === undefined ? '.' : `; did you mean "${meant}"?`}`, {
    hint: commandsHint(path),
  });
}

function commandNames(path: readonly Command[]): string[] {
  return (path.at(-1)?.commands ?? []).map(({ name }) => name);
}

function commandsHint(path: readonly Command[]): string {
  return `The commands are ${commandNames(path).join(', ')}; see ${nameOf(path)} --help.`;
}

function impossibleChoice(place: string, choices: readonly string[], value: string, hint: string): TonyError {
  const meant = suggest(value, choices);
  const list = choices.join(', ').replace(/, ([^,]*)$/, ' or $1');
  return new TonyError('USAGE', `${place} must be ${list}, not ${value}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, {
    hint,
  });
}

/** Describes a missing positional, for example `a job ID, such as application_...`. */
function describePlace({ name, describe, choices }: Positional): string {
  if (name === 'job') {
    return 'a job ID, such as application_1795225023264_0001';
  }
  const brief = choices.length > 0 ? choices.join(', ') : describe;
  return `${name.toUpperCase()}${brief === '' ? '' : `: ${brief.replace(/\.$/, '')}`}`;
}

export function nameOf(path: readonly Command[]): string {
  return ['tony-ts', ...path.slice(1).map(({ name }) => name)].join(' ');
}

export function helpHint(path: readonly Command[]): string {
  return `See ${nameOf(path)} --help.`;
}
