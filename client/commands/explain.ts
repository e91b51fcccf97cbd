import type { Argv, CommandModule } from 'yargs';

interface ExplainArguments {
  readonly code?: string | undefined;
}

const EXITS = { 1: 'the job failed', 2: 'the request was wrong', 3: 'the cluster could not be reached' } as const;

export const explainCommand: CommandModule<object, ExplainArguments> = {
  command: 'explain [code]',
  describe: 'Say what the code of an error means, and what to do; all codes when none is named',
  builder: (yargs): Argv<ExplainArguments> => yargs.positional('code', { type: 'string', describe: 'e.g. RM_UNREACHABLE' }),
  handler: async ({ code }) => {
    const { ERROR_CODES, TonyError } = await import('../../conf/errors.ts');
    const { suggest } = await import('../../conf/suggest.ts');
    const codes: Readonly<Record<string, { readonly exit: 1 | 2 | 3; readonly hint: string }>> = ERROR_CODES;
    if (code === undefined) {
      for (const [name, { exit }] of Object.entries(codes)) process.stdout.write(`${name}  ${EXITS[exit]} (exit code ${exit})\n`);
      return;
    }
    const known = Object.keys(codes);
    const name = code.toUpperCase();
    const entry = Object.hasOwn(codes, name) ? codes[name] : undefined;
    if (entry === undefined) {
      const meant = suggest(name, known);
      throw new TonyError('USAGE', `There is no error code ${code}${meant === undefined ? '' : `; did you mean ${meant}?`}`, {
        hint: 'tony-ts explain lists all codes.',
      });
    }
    process.stdout.write(`${name}: ${EXITS[entry.exit]} (exit code ${entry.exit}).\n${entry.hint === '' ? '' : `${entry.hint}\n`}`);
  },
};
