import type { ArgumentsCamelCase, Argv, CommandModule } from 'yargs';

interface CommandDefinition<Declared> {
  readonly command: string | readonly string[];
  readonly describe: string;
  /** Declares the positionals and options. */
  readonly builder: (yargs: Argv<object>) => Argv<Declared>;
  /** Runs the command. The declarations in `builder` determine the types of the arguments. */
  readonly handler: (args: ArgumentsCamelCase<Declared>) => Promise<void>;
}

/** Defines a command. Its help lists the command's own options before those of all commands. */
export function defineCommand<Declared>({ builder, ...definition }: CommandDefinition<Declared>): CommandModule<object, Declared> {
  // yargs lists groups in the order of their first use, and would use the group of ungrouped options last.
  return { ...definition, builder: (yargs) => builder(yargs.group([], 'Positionals:').group([], 'Options:')) };
}
