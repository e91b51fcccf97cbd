import { inspect } from 'node:util';
import type { TonyError } from '../../platform/errors.ts';
import { harmless, printable, type Terminal } from '../terminal/terminal.ts';
import { fold } from '../terminal/text-width.ts';

/** Formats an error with its hint. Includes the stack trace if --debug is set, and for internal errors. */
export function describeError(error: TonyError, terminal: Terminal, debug: boolean): string {
  const labelled = (label: string, text: string): string[] => {
    const lines = harmless(text).split('\n');
    if (!terminal.live) {
      return lines.map((line, at) => (at === 0 ? `${label} ${line}` : line));
    }
    return lines.flatMap((line, at) => fold(at === 0 ? `${label} ${line}` : line, terminal.columns - 1));
  };
  const lines = labelled(terminal.paint('red', 'error:'), error.message);
  if (error.hint !== '') {
    lines.push(...labelled(terminal.paint('cyan', 'hint:'), error.hint));
  }
  if (debug || error.code === 'INTERNAL') {
    lines.push(terminal.paint('dim', inspect(error, { depth: 5 })));
  }
  // Sanitize the message and the stack, because they may contain another user's text.
  return `${printable(lines.join('\n'))}\n`;
}
