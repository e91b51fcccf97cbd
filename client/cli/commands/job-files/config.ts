import { defineCommand, defineGroup } from '../../command/command.ts';
import { OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

const explainCommand = defineCommand({
  command: 'explain [key]',
  describe: 'Show the meaning, the allowed values and the default of a job.yaml key',
  positionals: { key: { type: 'string', describe: 'Key, e.g. roles.worker.restart; all keys by default' } },
  options: { site: { type: 'boolean', default: false, describe: "Explain a key in the admin's tony-site.yaml instead" }, ...OUTPUT_OPTION },
  handler: async ({ key = '', site, output }) => {
    const { explainConfig } = await import('../../help/explain.ts');
    const found = explainConfig(key, { site });
    await show(output, [found], async (terminal) => {
      const { wrap } = await import('../../../terminal/terminal.ts');
      const width = Math.max(40, terminal.columns - 1);
      const lines = [
        ...(key === '' ? [] : [terminal.paint('bold', key)]),
        ...(found.description === '' ? [] : wrap(found.description, width, 100)),
        ...(key === '' ? [] : [`value:    ${found.value}`]),
        ...(found.fallback === null ? [] : [`default:  ${found.fallback}`]),
      ];
      const wide = Math.max(0, ...found.children.map((child) => child.key.length));
      for (const child of found.children) {
        const [first = '', ...more] = wrap(child.description, width - wide - 4, 100);
        lines.push(`  ${child.key.padEnd(wide)}  ${first}`.trimEnd(), ...more.map((line) => `${' '.repeat(wide + 4)}${line}`));
      }
      return lines;
    });
  },
});

export const configCommand = defineGroup('config', 'Explain the keys in job.yaml and tony-site.yaml', [explainCommand]);
