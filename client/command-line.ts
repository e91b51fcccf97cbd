import yargs, { type Argv } from 'yargs';
import { messageOf, TonyError } from '../conf/errors.ts';
import { suggest } from '../conf/suggest.ts';
import { type DescribedCommand, type DescribedPositional, describeCommands } from './command-description.ts';
import { attachCommand } from './commands/attach.ts';
import { completionCommand } from './commands/completion.ts';
import { configCommand } from './commands/config.ts';
import { describeCommand } from './commands/describe.ts';
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
import { topCommand } from './commands/top.ts';
import { VERSION, versionCommand } from './commands/version.ts';
import { readWords } from './completion/typed-words.ts';

const EXIT_CODES = `Exit codes: 0 done (of submit and attach: the job succeeded), 1 the job failed, 2 the request was wrong, 3 the cluster could not be reached, 130 interrupted.

tony-ts explain CODE says more of an error; tony-ts completion makes your shell complete commands, jobs and tasks.`;

/** What may be typed: for yargs, and for whoever wants to know. */
function define(yargs: Argv): Argv {
  return yargs
    .command(initCommand)
    .command(importCommand)
    .command(submitCommand)
    .command(listCommand)
    .command(attachCommand)
    .command(statusCommand)
    .command(describeCommand)
    .command(topCommand)
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
    .command(completionCommand)
    .command(versionCommand)
    .option('debug', { type: 'boolean', default: false, describe: 'Show the stack of an error' })
    .version(VERSION)
    .help()
    .group(['help', 'debug', 'version'], 'Always:')
    .alias('help', 'h');
}

/** All commands with what they take. */
export function describeCommandLine(): DescribedCommand {
  return describeCommands(define);
}

/**
 * Parses and runs one command; resolves when it is done. What the person typed wrongly is a TonyError USAGE, with what was probably meant.
 * The commands import what they need when they run: `--help` has to be quick.
 */
export async function runCommandLine(words: readonly string[]): Promise<void> {
  if (words[0] === 'completion' && words[1] === '--words') {
    const { completionLines } = await import('./completion/complete.ts');
    const lines = await completionLines(describeCommandLine(), words.slice(2));
    process.stdout.write(lines.map((line) => `${line}\n`).join(''));
    return;
  }
  const parser: Argv = define(
    yargs([...words])
      .scriptName('tony-ts')
      .locale('en'),
  )
    .usage('$0 COMMAND\n\nDistributed TensorFlow.js training on Hadoop YARN')
    .strict()
    .demandCommand(1, 'Say what to do')
    .wrap(Math.min(100, process.stdout.columns ?? 80))
    .epilogue(EXIT_CODES)
    .exitProcess(false)
    .fail((message, error) => {
      // yargs' own complaints come as errors too; those of the commands pass.
      if (error instanceof Error && error.name !== 'YError') throw error;
      throw usage(message ?? error?.message ?? '', words);
    });
  // What yargs itself has to show: help, the version.
  await parser.parseAsync([...words], {}, (_error, _found, shown) => {
    if (shown !== '') process.stdout.write(`${ownOptionsFirst(shown)}\n`);
  });
}

/** A help page begins with what is the command's own; yargs puts named groups of options before the others. */
function ownOptionsFirst(help: string): string {
  const parts = help.split('\n\n');
  const always = parts.findIndex((part) => part.startsWith('Always:'));
  const own = parts.findLastIndex((part) => part.startsWith('Options:'));
  if (always < 0 || own < always) return help;
  return [...parts.slice(0, always), ...parts.slice(always + 1, own + 1), ...parts.slice(always, always + 1), ...parts.slice(own + 1)].join(
    '\n\n',
  );
}

function usage(message: string, words: readonly string[]): TonyError {
  const root = describeCommandLine();
  const { path: named, positionals } = readWords(root, words);
  const path = [root, ...named];
  const found = path.at(-1);
  const name = ['tony-ts', ...path.slice(1).map((command) => command.name)].join(' ');
  const hint = `See ${name} --help.`;
  const known = (found?.commands ?? []).map((command) => command.name);
  const [further] = positionals;
  const all = /^Unknown arguments?: (.*)$/.exec(message)?.[1]?.split(', ') ?? [];
  const [unknown] = all;
  // yargs takes --no-x for x that is switched off.
  const typed = words.find(
    (word) => word.startsWith('-') && all.some((each) => [each, `no-${each}`].includes(word.replace(/^-+/, '').split('=')[0] ?? '')),
  );
  // What stands for its first command when none is named may take a word of its own.
  if (typed === undefined && further !== undefined && known.length > 0 && (found?.otherwise?.positionals.length ?? 0) === 0) {
    const meant = suggest(further, known);
    const what = path.length === 1 ? `no command "${further}"` : `no "${name} ${further}"`;
    return new TonyError('USAGE', `There is ${what}${meant === undefined ? '' : `; did you mean "${meant}"?`}`, {
      hint:
        path.length === 1
          ? `The commands are ${known.join(', ')}; see tony-ts --help.`
          : `There are ${known.join(', ')}; see ${name} --help.`,
    });
  }
  if (/^Not enough non-option arguments/.test(message)) {
    const lacking = found?.positionals.filter(({ required }) => required)[positionals.length];
    return new TonyError('USAGE', `${name} wants ${lacking === undefined ? 'more words' : describePlace(lacking)}.`, {
      hint: lacking?.name === 'application' ? '' : hint,
    });
  }
  const missing = /^Not enough arguments following: (.*)$/.exec(message)?.[1];
  if (missing !== undefined) return new TonyError('USAGE', `--${missing} wants a value.`);
  const [, value = '', given = '', choices = ''] = /Argument: (\S+), Given: (.*), Choices: (.*?)\.?\s*$/s.exec(message) ?? [];
  if (value !== '') {
    const place = found?.positionals.some((positional) => positional.name === value) ? value.toUpperCase() : `--${value}`;
    return new TonyError(
      'USAGE',
      `${place} wants ${choices.replaceAll('"', '').replace(/, ([^,]*)$/, ' or $1')}, not ${given.replaceAll('"', '')}.`,
      { hint },
    );
  }
  if (unknown === undefined) return new TonyError('USAGE', sentence(message), { hint });
  const options = [...path, ...(found?.otherwise == null ? [] : [found.otherwise])].flatMap((command) => command.options);
  if (typed === undefined) {
    const isJob = /\.ya?ml$/.test(unknown) && options.some((option) => option.name === 'conf');
    return new TonyError('USAGE', `"${unknown}" is one word too many.`, {
      hint: isJob ? `The job file is named by --conf ${unknown}.` : hint,
    });
  }
  const meant = suggest(
    typed.replace(/^-+/, '').split('=')[0] ?? '',
    options.map((option) => option.name),
  );
  return new TonyError('USAGE', `There is no option ${typed.split('=')[0]}${meant === undefined ? '' : `; did you mean --${meant}?`}`, {
    hint,
  });
}

/** `an application id, such as application_...` */
function describePlace({ name, describe, choices }: DescribedPositional): string {
  if (name === 'application') return 'an application id, such as application_1795225023264_0001';
  const brief = choices.length > 0 ? choices.join(', ') : describe;
  return `${name.toUpperCase()}${brief === '' ? '' : `: ${brief.replace(/\.$/, '')}`}`;
}

function sentence(message: string): string {
  const line = messageOf(message);
  return /[.!?]$/.test(line) ? line : `${line}.`;
}
