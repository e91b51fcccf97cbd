import type { ReadStream } from 'node:tty';
import type { JobOutput } from '../../output/job-output.ts';
import { LiveOutput } from '../../output/live-output.ts';
import { TextOutput } from '../../output/text-output.ts';
import { ValueOutput } from '../../output/value-job-output.ts';
import { type OutputFormat, valueWriter } from '../../output/value-output.ts';
import { terminalOf } from '../../terminal/terminal.ts';

export interface Conversation {
  readonly output: JobOutput;
  readonly ask: (question: string) => void;
  /** Terminal for interactive answers; null if stdin is not interactive. */
  readonly input: ReadStream | null;
}

/**
 * Opens the output of this process.
 * @param where location of staged files as worded in messages, such as `on HDFS`
 */
export async function openConversation(format: OutputFormat, where: string): Promise<Conversation> {
  const write = (text: string): void => void process.stdout.write(text);
  if (format !== 'table') {
    return { output: new ValueOutput(await valueWriter(format)), ask: () => undefined, input: null };
  }
  const terminal = terminalOf(process.stdout);
  if (!terminal.live) {
    return { output: new TextOutput(write, terminal, where), ask: () => undefined, input: null };
  }
  const output = new LiveOutput(write, terminal, where);
  return { output, ask: (question) => output.ask(question), input: process.stdin.isTTY ? process.stdin : null };
}
