import type { ReadStream } from 'node:tty';
import type { JobOutput } from '../job-output.ts';
import { JsonOutput } from '../json-output.ts';
import { LiveOutput } from '../live-output.ts';
import { terminalOf } from '../terminal.ts';
import { TextOutput } from '../text-output.ts';

export interface Conversation {
  readonly output: JobOutput;
  readonly ask: (question: string) => void;
  /** The terminal that can be asked; null where there is none. */
  readonly input: ReadStream | null;
}

/** How this process speaks with who started it; `where` says where staged things lie. */
export function openConversation(format: 'text' | 'json', where: string): Conversation {
  const write = (text: string): void => void process.stdout.write(text);
  if (format === 'json') return { output: new JsonOutput(write), ask: () => undefined, input: null };
  const terminal = terminalOf(process.stdout);
  if (!terminal.live) return { output: new TextOutput(write, terminal, where), ask: () => undefined, input: null };
  const output = new LiveOutput(write, terminal, where);
  return { output, ask: (question) => output.ask(question), input: process.stdin.isTTY ? process.stdin : null };
}
