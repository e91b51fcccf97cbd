import { TonyError } from '../../../platform/errors.ts';
import { suggest } from '../../../platform/text/suggest.ts';
import type { DescribedCommand, DescribedPositional, NumberRange } from './command-description.ts';
import { isOptionLike, type ReadWords, readWords, type TypedOption, wantsValue } from './read-words.ts';

/**
 * Checks the words in a command line and returns the words for yargs. Skips the checks if the user asks for help or the version.
 * @throws TonyError USAGE for an unknown command or option, a missing or invalid value, a missing argument, or an unexpected argument
 */
export function checkWords(root: DescribedCommand, words: readonly string[]): readonly string[] {
  const read = readWords(root, words);
  if (read.unknownCommand !== undefined) {
    throw unknownCommand(read.path, read.unknownCommand);
  }
  if (read.options.some(({ name }) => name === 'help' || name === 'version')) {
    return words;
  }
  for (const option of read.options) {
    checkOption(read, option);
  }
  checkPositionals(read);
  checkCombinations(read);
  return read.joined;
}

function checkOption({ path, known }: ReadWords, typed: TypedOption): void {
  const hint = helpHint(path);
  const { name, option, value } = typed;
  if (option === null) {
    const visible = known.filter(({ hidden }) => !hidden).map((each) => each.name);
    const meant = suggest(name, visible);
    throw new TonyError('USAGE', `There is no option ${typed.typed}${meant === undefined ? '.' : `; did you mean --${meant}?`}`, { hint });
  }
  if (wantsValue(typed)) {
    throw new TonyError('USAGE', `${typed.typed} requires a value.`, {
      hint: `See ${nameOf(path)} --help. If the value begins with a dash, write ${typed.typed}=-x.`,
    });
  }
  if (value === undefined) {
    return;
  }
  // yargs treats every value except `true` as false. With `--dry-run=yes`, it would therefore submit the job.
  if (option.isFlag) {
    if (value === 'true' || value === 'false') {
      return;
    }
    throw new TonyError('USAGE', `${typed.typed} accepts only true or false, not ${shown(value)}.`, { hint });
  }
  if (option.range !== null && !isInRange(value, option.range)) {
    const { least, most } = option.range;
    const range = most === Number.POSITIVE_INFINITY ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new TonyError('USAGE', `--${name} requires a whole number ${range}, not ${shown(value)}.`, { hint });
  }
  if (option.choices.length > 0 && !option.choices.includes(option.normalize(value))) {
    throw impossibleChoice(`--${name}`, option.choices, value, hint);
  }
}

function isInRange(value: string, { least, most }: NumberRange): boolean {
  const number = Number(value);
  return value.trim() !== '' && Number.isInteger(number) && number >= least && number <= most;
}

function checkPositionals({ path, runs, known, positionals: words, rest }: ReadWords): void {
  const places = runs.positionals.filter(({ followsDashes }) => !followsDashes);
  const lacking = places.filter(({ required }) => required)[words.length];
  const name = nameOf(path);
  if (lacking !== undefined) {
    throw new TonyError('USAGE', `${name} requires ${describePlace(lacking)}.`, {
      hint: lacking.name === 'application' ? '' : helpHint(path),
    });
  }
  if (runs.commands.length > 0 && words.length === 0) {
    throw new TonyError('USAGE', `A command is missing: ${name} COMMAND.`, { hint: commandsHint(path) });
  }
  if (rest?.length === 0) {
    throw new TonyError('USAGE', 'A command is missing after --.', { hint: helpHint(path) });
  }
  for (const [at, { name: place, choices }] of places.entries()) {
    const word = words[at];
    if (word !== undefined && choices.length > 0 && !choices.includes(word)) {
      throw impossibleChoice(place.toUpperCase(), choices, word, helpHint(path));
    }
  }
  const repeated = places.findIndex(({ repeats }) => repeats);
  const fixed = repeated < 0 ? words : words.slice(0, repeated);
  const further = fixed.find((word, at) => at >= places.length || isOptionLike(word));
  if (further === undefined) {
    return;
  }
  const isJob = /\.ya?ml$/.test(further) && known.some((option) => option.name === 'conf');
  throw new TonyError('USAGE', `Unexpected argument "${further}".`, {
    hint: isJob
      ? `To name a job file, use --conf ${further}.`
      : places.length < runs.positionals.length
        ? `To run a command, write -- before it, as in ${name} -- ${further}.`
        : helpHint(path),
  });
}

function checkCombinations({ path, runs, options, positionals }: ReadWords): void {
  const hint = helpHint(path);
  for (const [at, { name, option, typed }] of options.entries()) {
    for (const other of option?.conflicts ?? []) {
      const place = runs.positionals.findIndex((each) => each.name === other);
      const conflicting = place >= 0 ? positionals[place] : options.find((each) => each.name === other)?.typed;
      if (conflicting !== undefined) {
        throw new TonyError('USAGE', `${typed} and ${conflicting} cannot be combined.`, { hint });
      }
    }
    const isSingle = option !== null && !option.isFlag && !option.isList;
    if (isSingle && options.findIndex((each) => each.name === name) < at) {
      throw new TonyError('USAGE', `${typed} is given twice, but accepts only one value.`, { hint });
    }
  }
}

function unknownCommand(path: readonly DescribedCommand[], word: string): TonyError {
  const meant = suggest(word, commandNames(path));
  const what = path.length === 1 ? `no command "${word}"` : `no "${nameOf(path)} ${word}"`;
  return new TonyError('USAGE', `There is ${what}${meant === undefined ? '.' : `; did you mean "${meant}"?`}`, {
    hint: commandsHint(path),
  });
}

function commandNames(path: readonly DescribedCommand[]): string[] {
  return (path.at(-1)?.commands ?? []).map(({ name }) => name);
}

function commandsHint(path: readonly DescribedCommand[]): string {
  return `The commands are ${commandNames(path).join(', ')}; see ${nameOf(path)} --help.`;
}

function impossibleChoice(place: string, choices: readonly string[], value: string, hint: string): TonyError {
  const meant = suggest(value, choices);
  const list = choices.join(', ').replace(/, ([^,]*)$/, ' or $1');
  return new TonyError('USAGE', `${place} must be ${list}, not ${shown(value)}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, {
    hint,
  });
}

/** Describes a missing positional, for example `an application ID, such as application_...`. */
function describePlace({ name, describe, choices }: DescribedPositional): string {
  if (name === 'application') {
    return 'an application ID, such as application_1795225023264_0001';
  }
  const brief = choices.length > 0 ? choices.join(', ') : describe;
  return `${name.toUpperCase()}${brief === '' ? '' : `: ${brief.replace(/\.$/, '')}`}`;
}

function nameOf(path: readonly DescribedCommand[]): string {
  return ['tony-ts', ...path.slice(1).map(({ name }) => name)].join(' ');
}

function helpHint(path: readonly DescribedCommand[]): string {
  return `See ${nameOf(path)} --help.`;
}

function shown(value: string): string {
  return value === '' ? '""' : value;
}
