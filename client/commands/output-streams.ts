import type { ReadStream } from 'node:tty';
import type { JobOutput } from '../job-output.ts';
import { LiveOutput } from '../live-output.ts';
import { terminalOf } from '../terminal.ts';
import { TextOutput } from '../text-output.ts';
import { ValueOutput } from '../value-job-output.ts';
import { type OutputFormat, valueWriter } from '../value-output.ts';

export interface Conversation {
  readonly output: JobOutput;
  readonly ask: (question: string) => void;
  /** The terminal that can be asked; null where there is none. */
  readonly input: ReadStream | null;
}

/** How this process speaks with who started it; `where` says where staged things lie. */
export async function openConversation(format: OutputFormat, where: string): Promise<Conversation> {
  const write = (text: string): void => void process.stdout.write(text);
  if (format !== 'table') return { output: new ValueOutput(await valueWriter(format)), ask: () => undefined, input: null };
  const terminal = terminalOf(process.stdout);
  if (!terminal.live) return { output: new TextOutput(write, terminal, where), ask: () => undefined, input: null };
  const output = new LiveOutput(write, terminal, where);
  return { output, ask: (question) => output.ask(question), input: process.stdin.isTTY ? process.stdin : null };
}
