import { inspect } from 'node:util';
import type { TonyError } from '../conf/errors.ts';
import { harmless, type Terminal } from './terminal.ts';
import { fold } from './text-width.ts';

/** What happened and the next step; the stack, which is for developers, only with --debug or for a defect of ours. */
export function describeError(error: TonyError, terminal: Terminal, debug: boolean): string {
  const say = (label: string, text: string): string[] => {
    const lines = harmless(text).split('\n');
    if (!terminal.live) return lines.map((line, at) => (at === 0 ? `${label} ${line}` : line));
    return lines.flatMap((line, at) => fold(at === 0 ? `${label} ${line}` : line, terminal.columns - 1));
  };
  const lines = say(terminal.paint('red', 'error:'), error.message);
  if (error.hint !== '') lines.push(...say(terminal.paint('cyan', 'hint:'), error.hint));
  if (debug || error.code === 'INTERNAL') lines.push(terminal.paint('dim', inspect(error, { depth: 5 })));
  return `${lines.join('\n')}\n`;
}
