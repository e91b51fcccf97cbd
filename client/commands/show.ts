import type { Terminal } from '../terminal.ts';
import type { OutputFormat } from '../value-output.ts';

/** Shows what a command has found: each as a value, where `--output` asks for values, or as lines for a person. */
export async function show(
  output: OutputFormat,
  values: readonly unknown[],
  lines: (terminal: Terminal) => readonly string[] | Promise<readonly string[]>,
): Promise<void> {
  if (output !== 'table') {
    const { valueWriter } = await import('../value-output.ts');
    const write = await valueWriter(output);
    for (const value of values) write(value);
    return;
  }
  const { terminalOf } = await import('../terminal.ts');
  process.stdout.write((await lines(terminalOf(process.stdout))).map((line) => `${line}\n`).join(''));
}
