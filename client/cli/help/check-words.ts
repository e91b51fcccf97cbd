import { TonyError } from '../../../platform/errors.ts';
import { suggest } from '../../../platform/suggest.ts';
import type { DescribedCommand, DescribedOption, DescribedPositional } from './command-description.ts';

/**
 * Validates the typed words against the described commands and rewrites them for yargs: a value that begins with a dash is joined by an
 * equals sign. Words that request help or the version are not validated.
 *
 * @throws TonyError USAGE for an unknown command or option, a missing or invalid value, and missing or superfluous words
 */
export function checkWords(root: DescribedCommand, words: readonly string[]): string[] {
  const command = findCommand(root, words);
  const { options, positionals, rest } = readOptions(command, words.slice(0, endOf(words)));
  if (options.some(({ name }) => name === 'help' || name === 'version')) return [...words];
  const all = [...positionals, ...words.slice(endOf(words) + 1)];
  for (const option of options) checkOption(command, option);
  const values = all.slice(command.path.length - 1);
  checkPositionals(command, values);
  checkConflicts(command, options, values);
  return [...rest, ...words.slice(endOf(words) + 1)];
}

interface FoundCommand {
  /** The commands from `tony-ts` down. */
  readonly path: readonly DescribedCommand[];
  /** All options that the command accepts. */
  readonly options: readonly DescribedOption[];
  /** The command itself, or its default subcommand. */
  readonly runs: DescribedCommand;
}

interface TypedOption {
  /** The name of a known option; otherwise as typed. */
  readonly name: string;
  /** As typed, without the value: `--no-open`, `-f`. */
  readonly typed: string;
  /** Null if the option is unknown. */
  readonly option: DescribedOption | null;
  /** Undefined if no value was typed. */
  readonly value: string | undefined;
}

/** Finds the command, which may follow options. A word after an unknown option is skipped, as it may be the option's value. */
function findCommand(root: DescribedCommand, words: readonly string[]): FoundCommand {
  const { certain } = readOptions(foundCommand([root], optionsBelow(root)), words.slice(0, endOf(words)));
  const path = [root];
  for (const word of certain) {
    const above = path.at(-1) ?? root;
    const next = above.commands.find(({ name }) => name === word);
    if (next !== undefined) path.push(next);
    else if (above.commands.length > 0 && (above.otherwise?.positionals.length ?? 0) === 0) throw unknownCommand(path, word);
    else break;
  }
  return foundCommand(path, [...(path.at(-1) ?? root).options, ...(path.at(-1)?.otherwise?.options ?? []), ...root.options]);
}

function foundCommand(path: readonly DescribedCommand[], options: readonly DescribedOption[]): FoundCommand {
  const last = path.at(-1) as DescribedCommand;
  return { path, options, runs: last.otherwise ?? last };
}

function optionsBelow(command: DescribedCommand): DescribedOption[] {
  return [...command.options, ...command.commands.flatMap(optionsBelow)];
}

function endOf(words: readonly string[]): number {
  const at = words.indexOf('--');
  return at < 0 ? words.length : at;
}

function readOptions({ options: known }: FoundCommand, words: readonly string[]) {
  const options: TypedOption[] = [];
  const positionals: string[] = [];
  /** Positionals before the first unknown option. */
  const certain: string[] = [];
  const rest: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (!isOptionLike(word)) {
      positionals.push(word);
      if (options.every(({ option }) => option !== null)) certain.push(word);
      rest.push(word);
      continue;
    }
    const found = readOption(known, word);
    const last = found.at(-1);
    const next = words[at + 1];
    if (
      last?.option != null &&
      !last.option.isFlag &&
      last.value === undefined &&
      next !== undefined &&
      isValue(next, last.option, known)
    ) {
      options.push(...found.slice(0, -1), { ...last, value: next });
      rest.push(...(next.startsWith('-') ? [`${word}=${next}`] : [word, next]));
      at++;
      continue;
    }
    options.push(...found);
    rest.push(word);
  }
  return { options, positionals, certain, rest };
}

function isOptionLike(word: string): boolean {
  return word.startsWith('-') && word !== '-' && !/^-[\d.]/.test(word);
}

/** Whether a word is the value of the option before it, and not an option itself. */
function isValue(word: string, option: DescribedOption, known: readonly DescribedOption[]): boolean {
  if (!isOptionLike(word)) return true;
  // Options contain no spaces.
  if (/^[^=]*\s/.test(word)) return true;
  return option.takesNextWord && readOption(known, word).every((each) => each.option === null);
}

/** `--name`, `--name=value`, `--no-name`, `-n`, or several flags as in `-ae`. */
function readOption(known: readonly DescribedOption[], word: string): TypedOption[] {
  const [typed = '', ...values] = word.split('=');
  const value = values.length === 0 ? undefined : values.join('=');
  const name = typed.replace(/^--?/, '');
  const option = find(known, name) ?? known.find((each) => each.isFlag && name === `no-${each.name}`) ?? null;
  if (option === null && /^-[A-Za-z]{2,}$/.test(typed)) {
    const flags = [...name].map((letter) => find(known, letter) ?? null);
    if (flags.every((flag) => flag?.isFlag === true))
      return flags.map((flag) => ({ name: flag?.name ?? '', typed: `-${flag?.aliases[0]}`, option: flag, value: undefined }));
  }
  return [{ name: option?.name ?? name, typed, option, value }];
}

function find(known: readonly DescribedOption[], name: string): DescribedOption | undefined {
  return known.find((each) => each.name === name || each.aliases.includes(name));
}

function checkOption({ path, options }: FoundCommand, { name, typed, option, value }: TypedOption): void {
  const hint = helpHint(path);
  if (option === null) {
    const meant = suggest(
      name,
      options.filter(({ hidden }) => !hidden).map((each) => each.name),
    );
    throw new TonyError('USAGE', `There is no option ${typed}${meant === undefined ? '.' : `; did you mean --${meant}?`}`, { hint });
  }
  if (option.isFlag) {
    // yargs treats every other value as false: `--dry-run=yes` would submit the job.
    if (value !== undefined && value !== 'true' && value !== 'false')
      throw new TonyError('USAGE', `${typed} takes no value but true or false, not ${value}.`, { hint });
    return;
  }
  if (value === undefined)
    throw new TonyError('USAGE', `${typed} wants a value.`, {
      hint: `See ${nameOf(path)} --help. A value that begins with a dash follows an equals sign: ${typed}=-x.`,
    });
  if (option.choices.length === 0 || option.choices.includes(option.normalize(value))) return;
  throw impossibleChoice(`--${option.name}`, option.choices, value, hint);
}

function checkPositionals({ path, runs, options }: FoundCommand, words: readonly string[]): void {
  const lacking = runs.positionals.filter(({ required }) => required)[words.length];
  const name = nameOf(path);
  if (lacking !== undefined) {
    throw new TonyError('USAGE', `${name} wants ${describePlace(lacking)}.`, {
      hint: lacking.name === 'application' ? '' : helpHint(path),
    });
  }
  if (runs.commands.length > 0 && words.length === 0) throw noCommand(path);
  for (const [at, { name: place, choices }] of runs.positionals.entries()) {
    const word = words[at];
    if (word !== undefined && choices.length > 0 && !choices.includes(word))
      throw impossibleChoice(place.toUpperCase(), choices, word, helpHint(path));
  }
  const further = words.find((word, at) => at >= runs.positionals.length || isOptionLike(word));
  if (further === undefined) return;
  const isJob = /\.ya?ml$/.test(further) && options.some((option) => option.name === 'conf');
  throw new TonyError('USAGE', `"${further}" is one word too many.`, {
    hint: isJob ? `The job file is named by --conf ${further}.` : helpHint(path),
  });
}

function checkConflicts({ path, runs }: FoundCommand, options: readonly TypedOption[], words: readonly string[]): void {
  for (const { option, typed } of options) {
    for (const other of option?.conflicts ?? []) {
      const place = runs.positionals.findIndex(({ name }) => name === other);
      const beside = place >= 0 ? words[place] : options.find(({ name }) => name === other)?.typed;
      if (beside !== undefined) throw new TonyError('USAGE', `${typed} and ${beside} exclude each other.`, { hint: helpHint(path) });
    }
  }
}

function unknownCommand(path: readonly DescribedCommand[], word: string): TonyError {
  const known = (path.at(-1)?.commands ?? []).map(({ name }) => name);
  const meant = suggest(word, known);
  const what = path.length === 1 ? `no command "${word}"` : `no "${nameOf(path)} ${word}"`;
  return new TonyError('USAGE', `There is ${what}${meant === undefined ? '.' : `; did you mean "${meant}"?`}`, {
    hint: `The commands are ${known.join(', ')}; see ${nameOf(path)} --help.`,
  });
}

function noCommand(path: readonly DescribedCommand[]): TonyError {
  const known = (path.at(-1)?.commands ?? []).map(({ name }) => name);
  return new TonyError('USAGE', `Say what to do: ${nameOf(path)} COMMAND.`, {
    hint: `The commands are ${known.join(', ')}; see ${nameOf(path)} --help.`,
  });
}

function impossibleChoice(place: string, choices: readonly string[], value: string, hint: string): TonyError {
  const meant = suggest(value, choices);
  const list = choices.join(', ').replace(/, ([^,]*)$/, ' or $1');
  return new TonyError('USAGE', `${place} wants ${list}, not ${value}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, { hint });
}

/** `an application id, such as application_...` */
function describePlace({ name, describe, choices }: DescribedPositional): string {
  if (name === 'application') return 'an application id, such as application_1795225023264_0001';
  const brief = choices.length > 0 ? choices.join(', ') : describe;
  return `${name.toUpperCase()}${brief === '' ? '' : `: ${brief.replace(/\.$/, '')}`}`;
}

function nameOf(path: readonly DescribedCommand[]): string {
  return ['tony-ts', ...path.slice(1).map(({ name }) => name)].join(' ');
}

function helpHint(path: readonly DescribedCommand[]): string {
  return `See ${nameOf(path)} --help.`;
}
