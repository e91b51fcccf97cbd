import type { ExplainedKey } from '../../../../conf/explain-key.ts';
import { EXIT_CODES } from '../../../../platform/errors.ts';
import type { ExplainedCode } from '../../../cli/help/explain.ts';
import type { FittedColumn } from '../../../terminal/fitted-table.ts';
import type { Terminal } from '../../../terminal/terminal.ts';
import { defineCommand } from '../../command/command.ts';
import { OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const explainCommand = defineCommand({
  command: 'explain [topic]',
  describe: 'Explain a key of job.yaml or an error code; lists the keys of job.yaml by default',
  foreignNames: ['config'],
  positionals: { topic: { type: 'string', describe: 'Key, e.g. roles.worker.restart, or error code, e.g. RM_UNREACHABLE' } },
  options: {
    site: { type: 'boolean', default: false, describe: "Explain a key in the admin's tony-site.yaml instead" },
    codes: { type: 'boolean', default: false, describe: 'List all error codes', excludes: ['topic', 'site'] },
    ...OUTPUT_OPTION,
  },
  examples: [
    ['$0 explain roles.worker.restart', ''],
    ['$0 explain --site quotas', ''],
    ['$0 explain RM_UNREACHABLE', ''],
  ],
  handler: async ({ topic = '', site, codes, output }) => {
    const { explain, explainCodes } = await import('../../help/explain.ts');
    if (codes) {
      const all = explainCodes();
      await show(output, 'ErrorCode', all, (terminal) => codeTable(all, terminal));
      return;
    }
    const found = explain(topic, { site });
    await show(output, 'code' in found ? 'ErrorCode' : 'ConfigKey', [found], (terminal) =>
      'code' in found ? codeLines(found, terminal) : keyLines(found, terminal),
    );
  },
});

async function codeTable(all: readonly ExplainedCode[], terminal: Terminal): Promise<string[]> {
  const { fittedTable } = await import('../../../terminal/fitted-table.ts');
  const columns: FittedColumn<ExplainedCode>[] = [
    { title: 'CODE', cell: ({ code }) => code, keep: 3 },
    { title: 'EXIT', cell: ({ exitCode }) => String(exitCode), align: 'right', keep: 2 },
    { title: 'MEANING', cell: ({ meaning }) => meaning, least: 8, keep: 1 },
  ];
  return fittedTable(all, columns, terminal);
}

async function codeLines({ code, meaning, exitCode, hint }: ExplainedCode, terminal: Terminal): Promise<string[]> {
  const { wrap } = await import('../../../terminal/terminal.ts');
  const width = Math.max(40, terminal.columns - 1);
  return [
    terminal.paint('bold', code),
    ...wrap(meaning, width, 20),
    ...wrap(`Exit code ${exitCode}: ${EXIT_CODES[exitCode]}`, width, 20),
    ...(hint === '' ? [] : wrap(`What to do: ${hint}`, width, 20)),
  ];
}

async function keyLines({ key, description, value, default: standard, children }: ExplainedKey, terminal: Terminal): Promise<string[]> {
  const { wrap } = await import('../../../terminal/terminal.ts');
  const width = Math.max(40, terminal.columns - 1);
  const lines = [
    ...(key === '' ? [] : [terminal.paint('bold', key)]),
    ...(description === '' ? [] : wrap(description, width, 100)),
    ...(key === '' ? [] : [`value:    ${value}`]),
    ...(standard === null ? [] : [`default:  ${standard}`]),
  ];
  const wide = Math.max(0, ...children.map((child) => child.key.length));
  for (const child of children) {
    const [first = '', ...more] = wrap(child.description, width - wide - 4, 100);
    lines.push(`  ${child.key.padEnd(wide)}  ${first}`.trimEnd(), ...more.map((line) => `${' '.repeat(wide + 4)}${line}`));
  }
  return lines;
}
