import type { OutputFormat } from '../../output/value-output.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/** Prints the result of a command as values or as lines of text, depending on `--output`. */
export async function show(
  output: OutputFormat,
  values: readonly unknown[],
  lines: (terminal: Terminal) => readonly string[] | Promise<readonly string[]>,
): Promise<void> {
  if (output !== 'table') {
    const { valueWriter } = await import('../../output/value-output.ts');
    const write = await valueWriter(output);
    for (const value of values) {
      write(value);
    }
    return;
  }
  const { printable, terminalOf } = await import('../../terminal/terminal.ts');
  process.stdout.write((await lines(terminalOf(process.stdout))).map((line) => `${printable(line)}\n`).join(''));
}

/** Prints a notice to stderr. Ignores an empty message. */
export async function showNotice(message: string): Promise<void> {
  if (message === '') {
    return;
  }
  const { printable, terminalOf } = await import('../../terminal/terminal.ts');
  process.stderr.write(`${terminalOf(process.stderr).paint('yellow', printable(message))}\n`);
}
