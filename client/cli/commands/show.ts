import { type ApiKind, apiObject } from '../../../conf/status/api-object.ts';
import type { OutputFormat } from '../../output/lines/value-output.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/**
 * Prints a command's result as values or as lines of text, depending on `--output`.
 * @param kind kind of each value
 * @param notice a remark about the result, such as that it is incomplete, or '' for none
 */
export async function show(
  output: OutputFormat,
  kind: ApiKind,
  values: readonly object[],
  lines: (terminal: Terminal) => readonly string[] | Promise<readonly string[]>,
  notice = '',
): Promise<void> {
  if (output !== 'table') {
    const { valueWriter } = await import('../../output/lines/value-output.ts');
    const write = await valueWriter(output);
    for (const value of values) {
      write(apiObject(kind, value));
    }
    if (notice !== '') {
      write(apiObject('Notice', { message: notice }));
    }
    return;
  }
  const { printable, terminalOf } = await import('../../terminal/terminal.ts');
  process.stdout.write((await lines(terminalOf(process.stdout))).map((line) => `${printable(line)}\n`).join(''));
  if (notice !== '') {
    process.stderr.write(`${terminalOf(process.stderr).paint('yellow', printable(notice))}\n`);
  }
}
