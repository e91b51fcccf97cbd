import { harmless, oneLine, wrap } from '../../terminal/terminal.ts';

/**
 * Maximum number of terminal lines for the sentence that describes the failure, and for each output line. Several are necessary, because
 * long output lines often end with the location of an error.
 */
const MOST_LINES = 4;

/** Formats a failure as a sentence and the last output lines of the failed program, wrapped to `width` columns. */
export function failureLines(sentence: string, lines: readonly string[], width: number): string[] {
  const written = lines.flatMap((line) => wrap(harmless(line).replace(/\s/g, ' '), width - 2, MOST_LINES));
  return [...wrap(oneLine(sentence), width, MOST_LINES), ...written.map((line) => `  ${line}`)];
}
