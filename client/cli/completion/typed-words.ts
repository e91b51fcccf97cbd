import type { DescribedCommand, DescribedOption, DescribedPositional } from '../help/command-description.ts';
import { readWords, wantsValue } from '../help/read-words.ts';

export interface CompletionCandidate {
  readonly value: string;
  readonly describe: string;
}

/** Words or value to complete at the cursor. */
export type Wanted =
  | { readonly kind: 'words'; readonly candidates: readonly CompletionCandidate[] }
  | ({ readonly kind: 'value'; readonly name: string; readonly prefix: string } & Typed);

/** Words that the user typed before the cursor. */
export interface Typed {
  /** Command path, such as `history show`. */
  readonly command: string;
  readonly positionals: readonly string[];
  readonly values: Readonly<Record<string, string>>;
}

/**
 * Determines what to complete at the cursor: a command or option, or the value of an option or positional.
 * @param words words up to the cursor, without `tony-ts`; the last word is incomplete or empty
 */
export function wantedAt(root: DescribedCommand, words: readonly string[]): Wanted {
  const current = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const { path, runs, known, options, positionals } = readWords(root, before);
  const values = Object.fromEntries(options.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const])));
  const typed: Typed = {
    command: path
      .slice(1)
      .map(({ name }) => name)
      .join(' '),
    positionals,
    values,
  };
  const onlyPositionals = before.includes('--');
  const last = options.at(-1);
  if (last !== undefined && wantsValue(last) && last.typed === before.at(-1)) {
    return placeOf(last.option, '', typed);
  }
  const used = new Set(options.map(({ name }) => name));
  if (!onlyPositionals && current.startsWith('-')) {
    const equals = current.indexOf('=');
    if (equals < 0) {
      return { kind: 'words', candidates: optionWords(known, used, current) };
    }
    const option = known.find(({ name, isFlag }) => `--${name}` === current.slice(0, equals) && !isFlag);
    return option === undefined ? { kind: 'words', candidates: [] } : placeOf(option, current.slice(0, equals + 1), typed);
  }
  const commands = path.at(-1)?.commands ?? [];
  if (positionals.length === 0 && commands.length > 0) {
    return { kind: 'words', candidates: commands.map(({ name, describe }) => ({ value: name, describe })) };
  }
  const positional = runs.positionals.filter(({ followsDashes }) => !followsDashes)[positionals.length];
  if (positional !== undefined) {
    return placeOf(positional, '', typed);
  }
  return { kind: 'words', candidates: onlyPositionals ? [] : optionWords(known, used, '--') };
}

function placeOf({ name, choices }: DescribedOption | DescribedPositional, prefix: string, typed: Typed): Wanted {
  if (choices.length > 0) {
    return { kind: 'words', candidates: choices.map((value) => ({ value: `${prefix}${value}`, describe: '' })) };
  }
  return { kind: 'value', name, prefix, ...typed };
}

function optionWords(options: readonly DescribedOption[], used: ReadonlySet<string>, current: string): CompletionCandidate[] {
  return options
    .filter(({ name, hidden, isList }) => !hidden && (isList || !used.has(name)))
    .flatMap(({ name, aliases, describe, on }) => {
      const short = current.startsWith('--') ? [] : aliases.filter((alias) => alias.length === 1).map((alias) => `-${alias}`);
      return [...short, on ? `--no-${name}` : `--${name}`].map((value) => ({ value, describe }));
    });
}
