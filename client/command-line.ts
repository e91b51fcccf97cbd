import yargs, { type Argv } from 'yargs';
import { messageOf, TonyError } from '../conf/errors.ts';
import { suggest } from '../conf/suggest.ts';
import { attachCommand } from './commands/attach.ts';
import { configCommand } from './commands/config.ts';
import { doctorCommand } from './commands/doctor.ts';
import { eventsCommand } from './commands/events.ts';
import { explainCommand } from './commands/explain.ts';
import { feedCommand } from './commands/feed.ts';
import { historyCommand } from './commands/history.ts';
import { importCommand } from './commands/import.ts';
import { initCommand } from './commands/init.ts';
import { killCommand } from './commands/kill.ts';
import { listCommand } from './commands/list.ts';
import { logsCommand } from './commands/logs.ts';
import { quotasCommand } from './commands/quotas.ts';
import { runtimeCommand } from './commands/runtime.ts';
import { statusCommand } from './commands/status.ts';
import { submitCommand } from './commands/submit.ts';
import { tensorboardCommand } from './commands/tensorboard.ts';
import { VERSION, versionCommand } from './commands/version.ts';

const COMMANDS = [
  'init',
  'import',
  'submit',
  'list',
  'attach',
  'status',
  'logs',
  'events',
  'kill',
  'feed',
  'history',
  'tensorboard',
  'doctor',
  'quotas',
  'config',
  'explain',
  'runtime',
  'version',
];

/**
 * Parses and runs one command; resolves when it is done. What the person typed wrongly is a TonyError USAGE, with what was probably meant.
 * The commands import what they need when they run: `--help` has to be quick.
 */
export async function runCommandLine(words: readonly string[]): Promise<void> {
  const parser: Argv = yargs([...words])
    .scriptName('tony-ts')
    .locale('en')
    .usage('$0 COMMAND\n\nDistributed TensorFlow.js training on Hadoop YARN')
    .command(initCommand)
    .command(importCommand)
    .command(submitCommand)
    .command(listCommand)
    .command(attachCommand)
    .command(statusCommand)
    .command(logsCommand)
    .command(eventsCommand)
    .command(killCommand)
    .command(feedCommand)
    .command(historyCommand)
    .command(tensorboardCommand)
    .command(doctorCommand)
    .command(quotasCommand)
    .command(configCommand)
    .command(explainCommand)
    .command(runtimeCommand)
    .command(versionCommand)
    .option('debug', { type: 'boolean', default: false, describe: 'Show the stack of an error' })
    .version(VERSION)
    .help()
    .group(['help', 'debug', 'version'], 'Always:')
    .alias('help', 'h')
    .strict()
    .demandCommand(1, 'Say what to do')
    .wrap(Math.min(100, process.stdout.columns ?? 80))
    .exitProcess(false)
    .fail((message, error) => {
      // yargs' own complaints come as errors too; those of the commands pass.
      if (error instanceof Error && error.name !== 'YError') throw error;
      throw usage(message ?? error?.message ?? '', words, optionsOf(parser));
    });
  await parser.parseAsync();
}

function usage(message: string, words: readonly string[], options: readonly string[]): TonyError {
  const command = words.find((word) => !word.startsWith('-')) ?? '';
  if (command !== '' && !COMMANDS.includes(command)) {
    const meant = suggest(command, COMMANDS);
    return new TonyError('USAGE', `There is no command "${command}"${meant === undefined ? '' : `; did you mean "${meant}"?`}`, {
      hint: `The commands are ${COMMANDS.join(', ')}; see tony-ts --help.`,
    });
  }
  const unknown = /^Unknown arguments?: (.*)$/.exec(message)?.[1]?.split(', ') ?? [];
  if (/^Not enough non-option arguments/.test(message)) {
    return new TonyError(
      'USAGE',
      command === 'import'
        ? 'tony-ts import wants the configuration of a TonY job, such as tony.xml.'
        : `tony-ts ${command} wants an application id, such as application_1795225023264_0001.`,
      { hint: '' },
    );
  }
  const missing = /^Not enough arguments following: (.*)$/.exec(message)?.[1];
  if (missing !== undefined) return new TonyError('USAGE', `--${missing} wants a value.`);
  const hint = `See tony-ts ${command === '' ? '' : `${command} `}--help.`;
  const [first] = unknown;
  if (first === undefined) return new TonyError('USAGE', sentence(message), { hint });
  const asOption = words.some((word) => word.startsWith('-') && word.replace(/^-+/, '').split('=')[0] === first);
  if (!asOption) return new TonyError('USAGE', `"${first}" is one word too many.`, { hint });
  const meant = suggest(first, options);
  return new TonyError('USAGE', `There is no option --${first}${meant === undefined ? '' : `; did you mean --${meant}?`}`, { hint });
}

function optionsOf(parser: Argv): string[] {
  const known = (parser as Argv & { getOptions(): { key: Record<string, unknown> } }).getOptions().key;
  return Object.keys(known).filter((name) => !/[A-Z]/.test(name) && name.length > 1);
}

function sentence(message: string): string {
  const line = messageOf(message);
  return /[.!?]$/.test(line) ? line : `${line}.`;
}
