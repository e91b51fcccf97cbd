import { once } from 'node:events';
import type { ReadStream } from 'node:tty';
import type { LogLine } from '../../connections/operations/log-reader.ts';
import type { JobOutput } from '../../output/job/job-output.ts';
import { LiveOutput } from '../../output/job/live-output.ts';
import { QuietOutput } from '../../output/job/quiet-output.ts';
import { TextOutput } from '../../output/job/text-output.ts';
import { ValueOutput } from '../../output/job/value-job-output.ts';
import { LogLines } from '../../output/lines/log-lines.ts';
import { redirectRequests } from '../../output/lines/request-lines.ts';
import { type OutputFormat, valueWriter } from '../../output/lines/value-output.ts';
import { LineOutput } from '../../terminal/line-output.ts';
import { terminalOf } from '../../terminal/terminal.ts';

export interface Conversation {
  readonly output: JobOutput;
  readonly ask: (question: string) => void;
  /** Terminal from which to read the user's answers, or null if stdin is not interactive. */
  readonly input: ReadStream | null;
}

/**
 * Chooses how the command shows its output, and whether it reads the user's answers.
 * @param options.isLocal whether the job runs on this machine
 * @param options.quiet whether to print only the job ID, program output and failures
 */
export async function openConversation(format: OutputFormat, { isLocal = false, quiet = false } = {}): Promise<Conversation> {
  const write = (text: string): void => void process.stdout.write(text);
  if (format !== 'table') {
    return { output: new ValueOutput(await valueWriter(format), drained), ask: () => undefined, input: null };
  }
  if (quiet) {
    const stderr = (text: string): void => void process.stderr.write(text);
    const output = new QuietOutput({ stdout: write, stderr, writeLog: logWriter() }, terminalOf(process.stderr));
    return { output, ask: () => undefined, input: null };
  }
  const terminal = terminalOf(process.stdout);
  if (!terminal.live) {
    return { output: new TextOutput(write, terminal, isLocal, undefined, logWriter()), ask: () => undefined, input: null };
  }
  const output = new LiveOutput(write, terminal, isLocal);
  if (process.stderr.isTTY) {
    redirectRequests((line) => output.say(line));
  }
  return { output, ask: (question) => output.ask(question), input: process.stdin.isTTY ? process.stdin : null };
}

async function drained(): Promise<void> {
  if (process.stdout.writableNeedDrain) {
    await once(process.stdout, 'drain');
  }
}

/** Returns a function that writes each line from a program to stdout, or to stderr if the program wrote it there. */
function logWriter(): (lines: readonly LogLine[]) => Promise<void> {
  const format = new LogLines({ prefixed: true });
  const text = new LineOutput();
  const terminals = { stdout: terminalOf(process.stdout), stderr: terminalOf(process.stderr) };
  return async (lines) => {
    for (const line of lines) {
      const stream = line.file === 'stderr' ? 'stderr' : 'stdout';
      await text.write(process[stream], format.line(line, terminals[stream]));
    }
    await text.flush();
  };
}
