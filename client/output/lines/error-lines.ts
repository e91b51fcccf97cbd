import { inspect } from 'node:util';
import type { TonyError } from '../../../platform/errors.ts';
import { indentedLines, printable, type Terminal } from '../../terminal/terminal.ts';
import { fold } from '../../terminal/text-width.ts';

/** Formats an error with its hint. Adds the stack trace to internal errors, and to all errors with --debug. */
export function describeError(error: TonyError, terminal: Terminal, debug: boolean): string {
  const lines = linesOf(error, terminal.paint('red', 'error:'), terminal);
  if (debug || error.code === 'INTERNAL') {
    lines.push(terminal.paint('dim', inspect(error, { depth: 5 })));
  }
  // The message and the stack trace may contain text written by another user, so remove control characters.
  return `${printable(lines.join('\n'))}\n`;
}

/** Formats a warning that a server has failed. The command continues with another server. */
export function describeSkippedServer({ message, hint }: TonyError, terminal: Terminal): string {
  const skipped = { message: `${message} This command uses another server.`, hint };
  return `${printable(linesOf(skipped, terminal.paint('yellow', 'warning:'), terminal).join('\n'))}\n`;
}

function linesOf({ message, hint }: { readonly message: string; readonly hint: string }, label: string, terminal: Terminal): string[] {
  const labelled = (name: string, text: string): string[] => {
    const lines = indentedLines(text);
    if (!terminal.live) {
      return lines.map((line, at) => (at === 0 ? `${name} ${line}` : line));
    }
    return lines.flatMap((line, at) => fold(at === 0 ? `${name} ${line}` : line, terminal.columns - 1));
  };
  return [...labelled(label, message), ...(hint === '' ? [] : labelled(terminal.paint('cyan', 'hint:'), hint))];
}
