import type { FirstFailure } from '../../conf/status.ts';
import { harmless, wrap } from '../terminal/terminal.ts';
import { oneLine } from './job-table.ts';

/** The maximum number of lines for a sentence or a line of a program; an error's location often comes at its end. */
const MOST_LINES = 4;

/** Formats the first failure and its last lines, wrapped to `width` columns. */
export function failureLines({ task, text, lines }: FirstFailure, width: number): string[] {
  const who = task === null ? '' : `${task}: `;
  const written = lines.flatMap((line) => wrap(harmless(line).replace(/\s/g, ' '), width - 2, MOST_LINES));
  return [...wrap(oneLine(`${who}${text}`), width, MOST_LINES), ...written.map((line) => `  ${line}`)];
}
