import type { DescribedCommand } from '../command-description.ts';
import { harmless } from '../terminal.ts';
import { type Candidate, wantedAt } from './typed-words.ts';
import { VALUES, type Values } from './values.ts';

/** A person waits for the TAB: what the cluster has not said by then, counted from the start of this process, is left out. */
const ANSWER_MS = 450;
/** On a busy machine the start takes all of that. */
const LEAST_ANSWER_MS = 200;
const LONGEST_DESCRIPTION = 60;

/**
 * What a shell's completion function gets: in the first line `words`, `files` or `folders`, what is to be completed with; then for `words` a
 * candidate a line, with its description after a tab. The shell filters them. Never throws: nobody wants an error in the middle of typing.
 *
 * @param words without `tony-ts`, the last one up to the cursor.
 */
export async function completionLines(root: DescribedCommand, words: readonly string[]): Promise<string[]> {
  const wanted = wantedAt(root, words);
  if (wanted.kind === 'words') return ['words', ...wanted.candidates.map(candidateLine)];
  const current = (words.at(-1) ?? '').slice(wanted.prefix.length);
  const values = await inTime(async () => (Object.hasOwn(VALUES, wanted.name) ? (VALUES[wanted.name]?.(wanted, current) ?? []) : []));
  if (typeof values === 'string') return [values];
  return ['words', ...values.map(({ value, describe }) => candidateLine({ value: `${wanted.prefix}${value}`, describe }))];
}

async function inTime(look: () => Promise<Values>): Promise<Values> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Values>((resolve) => {
    timer = setTimeout(() => resolve([]), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()));
  });
  try {
    return await Promise.race([look(), late]);
  } catch {
    return [];
  } finally {
    clearTimeout(timer);
  }
}

function candidateLine({ value, describe }: Candidate): string {
  const brief = harmless(describe).replace(/\s+/g, ' ').trim();
  const cut = brief.length > LONGEST_DESCRIPTION ? `${brief.slice(0, LONGEST_DESCRIPTION - 1)}…` : brief;
  return cut === '' ? value : `${value}\t${cut}`;
}
