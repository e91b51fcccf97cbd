import type { Argv, CommandModule } from 'yargs';
import type { OutputFormat } from '../value-output.ts';
import { OUTPUT_OPTION } from './shared-options.ts';

interface ExplainArguments {
  readonly code?: string | undefined;
  readonly output: OutputFormat;
}

export const explainCommand: CommandModule<object, ExplainArguments> = {
  command: 'explain [code]',
  describe: 'Say what the code of an error means, and what to do; all codes when none is named',
  builder: (yargs): Argv<ExplainArguments> =>
    yargs.positional('code', { type: 'string', describe: 'e.g. RM_UNREACHABLE' }).options(OUTPUT_OPTION),
  handler: async ({ code, output }) => {
    const { explainCode, explainCodes } = await import('../explain.ts');
    const found = code === undefined ? explainCodes() : [explainCode(code)];
    if (output !== 'table') {
      const { valueWriter } = await import('../value-output.ts');
      const write = await valueWriter(output);
      for (const each of found) write(each);
      return;
    }
    const { terminalOf, wrap } = await import('../terminal.ts');
    const terminal = terminalOf(process.stdout);
    if (code === undefined) {
      const { tableLines } = await import('../table-lines.ts');
      const columns = [
        { title: 'CODE', cell: (each: (typeof found)[number]) => each.code },
        { title: 'EXIT', cell: (each: (typeof found)[number]) => String(each.exitCode), align: 'right' as const },
        { title: 'MEANING', cell: (each: (typeof found)[number]) => each.meaning, flexible: true },
      ];
      process.stdout.write(`${tableLines(found, columns, terminal).join('\n')}\n`);
      return;
    }
    for (const each of found) {
      const lines = wrap(each.hint, Math.max(40, terminal.columns - 1), 20);
      process.stdout.write(
        `${[`${terminal.paint('bold', each.code)}: ${each.meaning} (exit code ${each.exitCode}).`, ...lines].join('\n')}\n`,
      );
    }
  },
};
