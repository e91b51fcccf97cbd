import type { FittedColumn } from '../../../terminal/fitted-table.ts';
import { defineCommand } from '../../command/command.ts';
import { OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const explainCommand = defineCommand({
  command: 'explain [code]',
  describe: 'Explain an error code and what to do about it; lists all codes by default',
  positionals: { code: { type: 'string', describe: 'Error code, e.g. RM_UNREACHABLE' } },
  options: { ...OUTPUT_OPTION },
  handler: async ({ code, output }) => {
    const { EXIT_CODES, explainCode, explainCodes } = await import('../../help/explain.ts');
    const found = code === undefined ? explainCodes() : [explainCode(code)];
    await show(output, found, async (terminal) => {
      if (code === undefined) {
        const { fittedTable } = await import('../../../terminal/fitted-table.ts');
        const columns: FittedColumn<(typeof found)[number]>[] = [
          { title: 'CODE', cell: ({ code: name }) => name, keep: 3 },
          { title: 'EXIT', cell: ({ exitCode }) => String(exitCode), align: 'right', keep: 2 },
          { title: 'MEANING', cell: ({ meaning }) => meaning, least: 8, keep: 1 },
        ];
        return fittedTable(found, columns, terminal);
      }
      const { wrap } = await import('../../../terminal/terminal.ts');
      const width = Math.max(40, terminal.columns - 1);
      return found.flatMap(({ code: name, meaning, exitCode, hint }) => [
        `${terminal.paint('bold', name)} (exit code ${exitCode}: ${EXIT_CODES[exitCode]})`,
        ...wrap(meaning, width, 20),
        ...(hint === '' ? [] : wrap(`What to do: ${hint}`, width, 20)),
      ]);
    });
  },
});
