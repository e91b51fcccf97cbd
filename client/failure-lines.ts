import type { FirstFailure } from '../conf/status.ts';
import { oneLine } from './job-table.ts';
import { harmless, wrap } from './terminal.ts';

/** A sentence, or a line of a program, goes on over so many: at its end stands where it failed. */
const MOST_LINES = 4;

/** What failed first and, below it, its last lines, in lines of at most `width` columns. */
export function failureLines({ task, text, lines }: FirstFailure, width: number): string[] {
  const who = task === null ? '' : `${task}: `;
  const written = lines.flatMap((line) => wrap(harmless(line).replace(/\s/g, ' '), width - 2, MOST_LINES));
  return [...wrap(oneLine(`${who}${text}`), width, MOST_LINES), ...written.map((line) => `  ${line}`)];
}
