import type { DescribedCommand, DescribedOption } from './command-description.ts';

export interface TypedOption {
  /** Full name of a known option, or an unknown option as the user typed it. */
  readonly name: string;
  /** Option as the user typed it, without its value, such as `--no-open` or `-f`. */
  readonly typed: string;
  /** Description of the option, or null for an unknown option. */
  readonly option: DescribedOption | null;
  /** Value, or undefined if the user did not type one. */
  readonly value: string | undefined;
}

export interface ReadWords {
  /** Commands that the user typed, starting with `tony-ts`. */
  readonly path: readonly DescribedCommand[];
  /** Last command that the user typed, or its default subcommand. */
  readonly runs: DescribedCommand;
  readonly known: readonly DescribedOption[];
  readonly options: readonly TypedOption[];
  /** Words that are not options. If `rest` is null, they include the words after `--`. */
  readonly positionals: readonly string[];
  /** Words after `--`. Null if there is no `--`, or if the command has no positional for these words. */
  readonly rest: readonly string[] | null;
  readonly unknownCommand: string | undefined;
  /** Words to pass to yargs. If a value begins with a dash, an equals sign joins it to its option. */
  readonly joined: readonly string[];
}

/** Splits a command line at `--`. If there is no `--`, `behind` is null. */
export function splitAtDashes(words: readonly string[]): { readonly before: readonly string[]; readonly behind: readonly string[] | null } {
  const end = words.indexOf('--');
  return end < 0 ? { before: words, behind: null } : { before: words.slice(0, end), behind: words.slice(end + 1) };
}

/** Returns the options in a command line, even if the command is unknown. */
export function readAllOptions(root: DescribedCommand, words: readonly string[]): readonly TypedOption[] {
  return readOptions(optionsBelow(root), splitAtDashes(words).before).options;
}

/** Sorts the words in a command line into commands, options and positionals. Options may precede the command. */
export function readWords(root: DescribedCommand, words: readonly string[]): ReadWords {
  const { before, behind } = splitAtDashes(words);
  const path = [root];
  let unknownCommand: string | undefined;
  // A word after an unknown option may be the value of that option.
  for (const word of readOptions(optionsBelow(root), before).certain) {
    const above = path.at(-1) ?? root;
    const next = above.commands.find(({ name }) => name === word);
    if (next === undefined) {
      if (above.commands.length > 0 && (above.otherwise?.positionals.length ?? 0) === 0) {
        unknownCommand = word;
      }
      break;
    }
    path.push(next);
  }
  const last = path.at(-1) ?? root;
  const runs = last.otherwise ?? last;
  const known = [...last.options, ...(last.otherwise?.options ?? []), ...(last === root ? [] : root.options)];
  const { options, positionals, joined } = readOptions(known, before);
  const rest = runs.positionals.some(({ followsDashes }) => followsDashes) ? behind : null;
  return {
    path,
    runs,
    known,
    options,
    positionals: [...positionals, ...(rest === null && behind !== null ? behind : [])].slice(path.length - 1),
    rest,
    unknownCommand,
    joined: behind === null ? joined : [...joined, ...(runs.positionals.some(({ repeats }) => repeats) ? ['--'] : []), ...behind],
  };
}

function optionsBelow(command: DescribedCommand): DescribedOption[] {
  return [...command.options, ...command.commands.flatMap(optionsBelow)];
}

function readOptions(known: readonly DescribedOption[], words: readonly string[]) {
  const options: TypedOption[] = [];
  const positionals: string[] = [];
  /** Positionals before the first unknown option. Later words may be values of that option. */
  const certain: string[] = [];
  const joined: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (!isOptionLike(word)) {
      positionals.push(word);
      if (options.every(({ option }) => option !== null)) {
        certain.push(word);
      }
      joined.push(word);
      continue;
    }
    const found = readOption(known, word);
    const last = found.at(-1);
    const next = words[at + 1];
    if (last !== undefined && wantsValue(last) && next !== undefined && isValue(next, last.option, known)) {
      options.push(...found.slice(0, -1), { ...last, value: next });
      joined.push(...(next.startsWith('-') ? [`${word}=${next}`] : [word, next]));
      at++;
      continue;
    }
    options.push(...found);
    joined.push(word);
  }
  return { options, positionals, certain, joined };
}

export function wantsValue(typed: TypedOption): typed is TypedOption & { readonly option: DescribedOption } {
  return typed.option !== null && !typed.option.isFlag && typed.value === undefined;
}

/** Returns true if a word looks like an option. Negative numbers do not. */
export function isOptionLike(word: string): boolean {
  return word.startsWith('-') && word !== '-' && !/^-[\d.]/.test(word);
}

function isValue(word: string, option: DescribedOption, known: readonly DescribedOption[]): boolean {
  if (!isOptionLike(word)) {
    return true;
  }
  // A word with a space before the `=` sign must be a value, because option names do not contain spaces.
  if (/^[^=]*\s/.test(word)) {
    return true;
  }
  return option.takesNextWord && readOption(known, word).every((each) => each.option === null);
}

/** Parses `--name`, `--name=value`, `--no-name`, `-n`, or combined flags such as `-ae`. */
function readOption(known: readonly DescribedOption[], word: string): TypedOption[] {
  const [typed = '', ...values] = word.split('=');
  const value = values.length === 0 ? undefined : values.join('=');
  const name = typed.replace(/^--?/, '');
  const option = find(known, name) ?? known.find((each) => each.isFlag && name === `no-${each.name}`) ?? null;
  if (option === null && /^-[A-Za-z]{2,}$/.test(typed)) {
    const flags = [...name].map((letter) => find(known, letter) ?? null);
    if (flags.every((flag) => flag?.isFlag === true)) {
      return flags.map((flag) => ({ name: flag?.name ?? '', typed: `-${flag?.aliases[0]}`, option: flag, value: undefined }));
    }
  }
  return [{ name: option?.name ?? name, typed, option, value }];
}

function find(known: readonly DescribedOption[], name: string): DescribedOption | undefined {
  return known.find((each) => each.name === name || each.aliases.includes(name));
}
