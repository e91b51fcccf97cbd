import type { DescribedCommand, DescribedOption, DescribedPositional } from '../help/command-description.ts';

export interface Candidate {
  readonly value: string;
  /** Empty if there is no description. */
  readonly describe: string;
}

/** What can be completed at the cursor. */
export type Wanted =
  | { readonly kind: 'words'; readonly candidates: readonly Candidate[] }
  /** The value of an option or positional of that name. */
  | ({ readonly kind: 'value'; readonly name: string; readonly prefix: string } & Typed);

/** The words before the cursor. */
export interface Typed {
  /** e.g. `history show` */
  readonly command: string;
  readonly positionals: readonly string[];
  /** Values of options by name. */
  readonly values: Readonly<Record<string, string>>;
}

/**
 * Determines what can be typed next: commands and options as candidates, values as the name of the option or positional.
 *
 * @param words all up to the cursor, without `tony-ts`; the last one is being typed and may be empty
 */
export function wantedAt(root: DescribedCommand, words: readonly string[]): Wanted {
  const current = words.at(-1) ?? '';
  const { path, positionals, options, values, used, pending, onlyPositionals } = readWords(root, words.slice(0, -1));
  const command = path.at(-1) ?? root;
  const typed: Typed = { command: path.map(({ name }) => name).join(' '), positionals, values };
  if (pending !== null) return placeOf(pending, '', typed);
  if (!onlyPositionals && current.startsWith('-')) {
    const [name = '', value] = halves(current);
    const option = options.find((each) => each.name === name && !each.isFlag);
    if (value === undefined) return { kind: 'words', candidates: optionWords(options, used, current) };
    return option === undefined ? { kind: 'words', candidates: [] } : placeOf(option, `--${name}=`, typed);
  }
  const positional = (command.otherwise ?? command).positionals[positionals.length];
  if (positionals.length === 0 && command.commands.length > 0) {
    return { kind: 'words', candidates: command.commands.map(({ name, describe }) => ({ value: name, describe })) };
  }
  if (positional !== undefined) return placeOf(positional, '', typed);
  return { kind: 'words', candidates: onlyPositionals ? [] : optionWords(options, used, '--') };
}

export interface ReadWords {
  /** The command and its subcommand, including the root. */
  readonly path: readonly DescribedCommand[];
  /** Words that are not commands, options, or values of options. */
  readonly positionals: readonly string[];
  /** The options that the command accepts. */
  readonly options: readonly DescribedOption[];
  readonly values: Readonly<Record<string, string>>;
  readonly used: ReadonlySet<string>;
  /** The option whose value is expected next. */
  readonly pending: DescribedOption | null;
  /** `--` was typed. */
  readonly onlyPositionals: boolean;
}

/** Classifies the words as commands, options, values and positionals. */
export function readWords(root: DescribedCommand, words: readonly string[]): ReadWords {
  let command = root;
  let options = root.options;
  let pending: DescribedOption | null = null;
  let onlyPositionals = false;
  const path: DescribedCommand[] = [];
  const positionals: string[] = [];
  const used = new Set<string>();
  const values: Record<string, string> = {};
  for (const word of words) {
    if (pending !== null) {
      values[pending.name] = word;
      pending = null;
    } else if (!onlyPositionals && word === '--') onlyPositionals = true;
    else if (!onlyPositionals && word.startsWith('-') && word !== '-') {
      const [name = '', value] = halves(word);
      const option = options.find((each) => each.name === name || each.aliases.includes(name) || (each.on && name === `no-${each.name}`));
      if (option === undefined) continue;
      used.add(option.name);
      if (option.isFlag) continue;
      if (value === undefined) pending = option;
      else values[option.name] = value;
    } else {
      const next: DescribedCommand | undefined = positionals.length === 0 ? command.commands.find(({ name }) => name === word) : undefined;
      if (next === undefined) positionals.push(word);
      else {
        command = next;
        path.push(next);
        options = [...next.options, ...(next.otherwise?.options ?? []), ...root.options];
      }
    }
  }
  return { path, positionals, options, values, used, pending, onlyPositionals };
}

function placeOf({ name, choices }: DescribedOption | DescribedPositional, prefix: string, typed: Typed): Wanted {
  if (choices.length > 0) return { kind: 'words', candidates: choices.map((value) => ({ value: `${prefix}${value}`, describe: '' })) };
  return { kind: 'value', name, prefix, ...typed };
}

function optionWords(options: readonly DescribedOption[], used: ReadonlySet<string>, current: string): Candidate[] {
  return options
    .filter(({ name, hidden, isList }) => !hidden && (isList || !used.has(name)))
    .flatMap(({ name, aliases, describe, on }) => {
      const short = current.startsWith('--') ? [] : aliases.filter((alias) => alias.length === 1).map((alias) => `-${alias}`);
      return [...short, on ? `--no-${name}` : `--${name}`].map((value) => ({ value, describe }));
    });
}

/** `--output=js` -> `output`, `js` */
function halves(word: string): [string, string?] {
  const plain = word.replace(/^--?/, '');
  const at = plain.indexOf('=');
  return at < 0 ? [plain] : [plain.slice(0, at), plain.slice(at + 1)];
}
