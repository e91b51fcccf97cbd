import type { OutputFormat } from '../../output/value-output.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/**
 * Prints the result of a command as values or as lines of text, depending on `--output`.
 * @param notice remark about the result, for example that the result is incomplete, or '' for no remark
 */
export async function show(
  output: OutputFormat,
  values: readonly unknown[],
  lines: (terminal: Terminal) => readonly string[] | Promise<readonly string[]>,
  notice = '',
): Promise<void> {
  if (output !== 'table') {
    const { valueWriter } = await import('../../output/value-output.ts');
    const write = await valueWriter(output);
    for (const value of notice === '' ? values : [...values, { type: 'notice', message: notice }]) {
      write(value);
    }
    return;
  }
  const { printable, terminalOf } = await import('../../terminal/terminal.ts');
  process.stdout.write((await lines(terminalOf(process.stdout))).map((line) => `${printable(line)}\n`).join(''));
  if (notice !== '') {
    process.stderr.write(`${terminalOf(process.stderr).paint('yellow', printable(notice))}\n`);
  }
}
