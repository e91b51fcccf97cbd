import type { DescribedCommand } from '../command-description.ts';
import { harmless } from '../terminal.ts';
import { type Candidate, type Typed, wantedAt } from './typed-words.ts';
import { VALUES, type Values } from './values.ts';

const LONGEST_DESCRIPTION = 60;

/**
 * What a shell's completion function gets: in the first line `words`, `files` or `folders`, what is to be completed with; then for `words` a
 * candidate a line, with its description after a tab. The shell filters them. Never throws: nobody wants an error in the middle of typing.
 *
 * @param words without `tony-ts`, the last one up to the cursor.
 */
export async function completionLines(root: DescribedCommand, words: readonly string[]): Promise<string[]> {
  const wanted = wantedAt(root, words);
  if (wanted.kind === 'words') return ['words', ...wanted.candidates.filter(isPlain).map(candidateLine)];
  const current = (words.at(-1) ?? '').slice(wanted.prefix.length);
  const values = await valuesOf(wanted.name, wanted, current);
  if (typeof values === 'string') return [values];
  return ['words', ...values.filter(isPlain).map(({ value, describe }) => candidateLine({ value: `${wanted.prefix}${value}`, describe }))];
}

async function valuesOf(name: string, typed: Typed, current: string): Promise<Values> {
  const find = Object.hasOwn(VALUES, name) ? VALUES[name] : undefined;
  try {
    return (await find?.(typed, current)) ?? [];
  } catch {
    return [];
  }
}

/** bash puts what is completed onto the line as it is: nothing that a shell would take for more than a word. */
function isPlain({ value }: Candidate): boolean {
  return /^[\w.:@=%+,/-]*$/.test(value);
}

function candidateLine({ value, describe }: Candidate): string {
  const brief = harmless(describe).replace(/\s+/g, ' ').trim();
  const cut = brief.length > LONGEST_DESCRIPTION ? `${brief.slice(0, LONGEST_DESCRIPTION - 1)}…` : brief;
  return cut === '' ? value : `${value}\t${cut}`;
}
