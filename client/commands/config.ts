import type { Argv, CommandModule } from 'yargs';

interface ExplainArguments {
  readonly key?: string | undefined;
  readonly site: boolean;
}

const explainCommand: CommandModule<object, ExplainArguments> = {
  command: 'explain [key]',
  describe: 'Say what a key of job.yaml is for, what may be written, and what holds when it is left out',
  builder: (yargs): Argv<ExplainArguments> =>
    yargs.positional('key', { type: 'string', describe: 'e.g. roles.worker.restart; all keys when none is named' }).options({
      site: { type: 'boolean', default: false, describe: "A key of the admin's tony-site.yaml instead" },
    }),
  handler: async ({ key = '', site }) => {
    const { TonyError } = await import('../../conf/errors.ts');
    const { explainKey } = await import('../../conf/explain-key.ts');
    const { suggest } = await import('../../conf/suggest.ts');
    const schema = site
      ? (await import('../../conf/site.ts')).siteJsonSchema()
      : (await import('../../conf/job-schema.ts')).jobJsonSchema();
    const found = explainKey(schema, key);
    if (found === null) {
      const parts = key.split('.');
      const parent = parts.slice(0, -1).join('.');
      const known = (explainKey(schema, parent)?.children ?? []).map((child) => child.key);
      const meant = suggest(parts.at(-1) ?? '', known);
      const full = meant === undefined ? '' : `; did you mean ${[...parts.slice(0, -1), meant].join('.')}?`;
      throw new TonyError('USAGE', `There is no key ${key}${full}`, { hint: 'tony-ts config explain lists all keys.' });
    }
    const { terminalOf, wrap } = await import('../terminal.ts');
    const terminal = terminalOf(process.stdout);
    const width = Math.max(40, terminal.columns - 1);
    const lines = [
      ...(key === '' ? [] : [terminal.paint('bold', key)]),
      ...(found.description === '' ? [] : wrap(found.description, width, 100)),
      ...(key === '' ? [] : [`value:    ${found.value}`]),
      ...(found.fallback === null || found.children.length > 0 ? [] : [`default:  ${found.fallback}`]),
    ];
    const wide = Math.max(0, ...found.children.map((child) => child.key.length));
    for (const child of found.children) {
      const [first = '', ...more] = wrap(child.description, width - wide - 4, 100);
      lines.push(`  ${child.key.padEnd(wide)}  ${first}`.trimEnd(), ...more.map((line) => `${' '.repeat(wide + 4)}${line}`));
    }
    process.stdout.write(`${lines.join('\n')}\n`);
  },
};

export const configCommand: CommandModule = {
  command: 'config',
  describe: 'Explain the keys of job.yaml and tony-site.yaml',
  builder: (yargs) => yargs.command(explainCommand).demandCommand(1, 'Say what to do'),
  handler: () => {},
};
