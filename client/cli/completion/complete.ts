import { harmless } from '../../terminal/terminal.ts';
import type { DescribedCommand } from '../help/command-description.ts';
import { type CompletionCandidate, type Typed, wantedAt } from './typed-words.ts';
import { type Suggestions, VALUES } from './values.ts';

const LONGEST_DESCRIPTION = 60;

/**
 * Returns the lines that a shell's completion function reads. The first line is `words`, `files` or `folders`. After `words`, each line
 * contains a candidate, a tab and a description. Never throws, because an error message would garble the user's prompt.
 * @param words words up to the cursor, without `tony-ts`
 */
export async function completionLines(root: DescribedCommand, words: readonly string[]): Promise<string[]> {
  const wanted = wantedAt(root, words);
  if (wanted.kind === 'words') {
    return ['words', ...wanted.candidates.filter(isPlain).map(candidateLine)];
  }
  const current = (words.at(-1) ?? '').slice(wanted.prefix.length);
  const values = await valuesOf(wanted.name, wanted, current);
  if (typeof values === 'string') {
    return [values];
  }
  return ['words', ...values.filter(isPlain).map(({ value, describe }) => candidateLine({ value: `${wanted.prefix}${value}`, describe }))];
}

async function valuesOf(name: string, typed: Typed, current: string): Promise<Suggestions> {
  const find = Object.hasOwn(VALUES, name) ? VALUES[name] : undefined;
  try {
    return (await find?.(typed, current)) ?? [];
  } catch {
    return [];
  }
}

/** Returns true if a candidate does not contain any characters that are special to shells. bash inserts candidates without quoting them. */
function isPlain({ value }: CompletionCandidate): boolean {
  return /^[\w.:@=%+,/-]*$/.test(value);
}

function candidateLine({ value, describe }: CompletionCandidate): string {
  const brief = harmless(describe).replace(/\s+/g, ' ').trim();
  const cut = brief.length > LONGEST_DESCRIPTION ? `${brief.slice(0, LONGEST_DESCRIPTION - 1)}…` : brief;
  return cut === '' ? value : `${value}\t${cut}`;
}
