import { inspect } from 'node:util';
import type { TonyError } from '../conf/errors.ts';
import { harmless, type Terminal } from './terminal.ts';

/** What happened and the next step; the stack, which is for developers, only with --debug or for a defect of ours. */
export function describeError(error: TonyError, terminal: Terminal, debug: boolean): string {
  const lines = [`${terminal.paint('red', 'error:')} ${harmless(error.message)}`];
  if (error.hint !== '') lines.push(`${terminal.paint('cyan', 'hint:')} ${harmless(error.hint)}`);
  if (debug || error.code === 'INTERNAL') lines.push(terminal.paint('dim', inspect(error, { depth: 5 })));
  return `${lines.join('\n')}\n`;
}
