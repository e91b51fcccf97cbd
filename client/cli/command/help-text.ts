import yargs, { type Argv } from 'yargs';
import type { Command } from './command.ts';

/** Widest line of the help. */
const MOST_COLUMNS = 100;

/**
 * Returns the help that yargs prints for a command.
 * @param path the commands that the user typed, starting with `tony-ts`
 */
export async function helpText(path: readonly Command[]): Promise<string> {
  const [root, ...below] = path as readonly [Command, ...Command[]];
  const help = declared(yargs([]).scriptName('tony-ts').locale('en').version(false), root)
    .usage(`$0 COMMAND\n\n${root.describe}`)
    .group(
      root.options.map(({ name }) => name),
      'Always:',
    )
    .wrap(Math.min(MOST_COLUMNS, process.stdout.columns ?? 80))
    .exitProcess(false);
  const words = [...below.map(({ name }) => name), '--help'];
  // yargs passes the help to this callback in place of printing it.
  return await new Promise((resolve, reject) => {
    help.parse(words, {}, (error, _found, shown) => (error == null ? resolve(`${shown}\n`) : reject(error)));
  });
}

/** Declares a command's positionals, options and subcommands in yargs. */
function declared(help: Argv, { positionals, options, commands, otherwise, epilogue, examples }: Command): Argv {
  // yargs lists groups in the order of their first use, and would use the group of ungrouped options last.
  const grouped =
    positionals.length + options.length > 0 && commands.length === 0 ? help.group([], 'Positionals:').group([], 'Options:') : help;
  for (const { name, settings } of positionals) {
    grouped.positional(name, settings);
  }
  grouped.options(Object.fromEntries(options.map(({ name, settings }) => [name, settings])));
  for (const command of commands) {
    grouped.command(command === otherwise ? [usageOf(command), '$0'] : usageOf(command), command.describe, (below) =>
      declared(below, command),
    );
  }
  for (const [command, describe] of examples) {
    grouped.example(command, describe);
  }
  return epilogue === '' ? grouped : grouped.epilogue(epilogue);
}

function usageOf({ name, positionals }: Command): string {
  const places = positionals.map(({ name: place, required, repeats }) => {
    const word = `${place}${repeats ? '..' : ''}`;
    return required ? `<${word}>` : `[${word}]`;
  });
  return [name, ...places].join(' ');
}
