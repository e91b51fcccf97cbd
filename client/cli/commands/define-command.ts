import type { ArgumentsCamelCase, Argv, CommandModule } from 'yargs';

interface CommandDefinition<Declared> {
  readonly command: string | readonly string[];
  readonly describe: string;
  /** Declares the positionals and options. */
  readonly builder: (yargs: Argv<object>) => Argv<Declared>;
  /** Runs the command. The declarations in `builder` determine the types of the arguments. */
  readonly handler: (args: ArgumentsCamelCase<Declared>) => Promise<void>;
}

export function defineCommand<Declared>(definition: CommandDefinition<Declared>): CommandModule<object, Declared> {
  return definition;
}
