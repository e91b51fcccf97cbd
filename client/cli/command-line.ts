import yargs, { type Argv } from 'yargs';
import { TonyError } from '../../platform/errors.ts';
import { cacheCommand } from './commands/cluster/cache.ts';
import { doctorCommand } from './commands/cluster/doctor.ts';
import { historyCommand } from './commands/cluster/history.ts';
import { quotasCommand } from './commands/cluster/quotas.ts';
import { runtimeCommand } from './commands/cluster/runtime.ts';
import { completionCommand } from './commands/help/completion.ts';
import { explainCommand } from './commands/help/explain.ts';
import { VERSION, versionCommand } from './commands/help/version.ts';
import { configCommand } from './commands/job-files/config.ts';
import { importCommand } from './commands/job-files/import.ts';
import { initCommand } from './commands/job-files/init.ts';
import { attachCommand } from './commands/jobs/attach.ts';
import { describeCommand } from './commands/jobs/describe.ts';
import { eventsCommand } from './commands/jobs/events.ts';
import { killCommand } from './commands/jobs/kill.ts';
import { listCommand } from './commands/jobs/list.ts';
import { logsCommand } from './commands/jobs/logs.ts';
import { statusCommand } from './commands/jobs/status.ts';
import { submitCommand } from './commands/jobs/submit.ts';
import { topCommand } from './commands/jobs/top.ts';
import { execCommand } from './commands/tasks/exec.ts';
import { feedCommand } from './commands/tasks/feed.ts';
import { forwardCommand } from './commands/tasks/forward.ts';
import { notebookCommand } from './commands/tasks/notebook.ts';
import { shellCommand } from './commands/tasks/shell.ts';
import { tensorboardCommand } from './commands/tasks/tensorboard.ts';
import { checkWords } from './help/check-words.ts';
import { type DescribedCommand, describeCommands } from './help/command-description.ts';
import { readAllOptions, splitAtDashes } from './help/read-words.ts';

const EXIT_CODES = `Exit codes: 0 success (submit and attach: the job succeeded), 1 the job failed, 2 the request was invalid, 3 the cluster could not be reached, 130 interrupted.

tony-ts explain CODE explains an error. tony-ts completion prints a script that lets your shell complete commands, jobs and tasks.`;

/** Defines all commands on `yargs`, which is either the real yargs or the recorder that `describeCommands` uses. */
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
    .command(execCommand)
    .command(shellCommand)
    .command(forwardCommand)
    .command(notebookCommand)
    .command(feedCommand)
    .command(historyCommand)
    .command(cacheCommand)
    .command(tensorboardCommand)
    .command(doctorCommand)
    .command(quotasCommand)
    .command(configCommand)
    .command(explainCommand)
    .command(runtimeCommand)
    .command(completionCommand)
    .command(versionCommand)
    .option('debug', { type: 'boolean', default: false, describe: 'Show the stack trace if an error occurs' })
    .option('verbose', { type: 'boolean', alias: 'v', default: false, describe: 'Show each HTTP request on stderr' })
    .version(VERSION)
    .help()
    .group(['help', 'debug', 'verbose', 'version'], 'Always:')
    .alias('help', 'h');
}

export function describeCommandLine(): DescribedCommand {
  return describeCommands(define);
}

/** Returns the options that determine how errors are formatted, even if the command line is invalid. */
export function errorOptions(words: readonly string[]): { readonly output: string; readonly debug: boolean } {
  const options = readAllOptions(describeCommandLine(), words);
  const debug = options.findLast(({ name }) => name === 'debug');
  return {
    output: options.findLast(({ name }) => name === 'output')?.value ?? 'table',
    debug: debug !== undefined && (debug.value ?? String(debug.typed === '--debug')) === 'true',
  };
}

/**
 * Parses the command line and runs the command. Commands import their dependencies lazily, so that `--help` is fast.
 * @throws TonyError USAGE with the closest match, or the error that the command throws
 */
export async function runCommandLine(words: readonly string[]): Promise<void> {
  if (words[0] === 'completion' && words[1] === '--words') {
    const { completionLines } = await import('./completion/complete.ts');
    const lines = await completionLines(describeCommandLine(), words.slice(2));
    process.stdout.write(lines.map((line) => `${line}\n`).join(''));
    return;
  }
  const checked = checkWords(describeCommandLine(), words);
  // yargs would turn some of the words after `--` into numbers.
  const { before, behind } = splitAtDashes(checked);
  const parser: Argv = define(yargs(before).scriptName('tony-ts').locale('en'))
    .usage('$0 COMMAND\n\nDistributed TensorFlow.js training on Hadoop YARN')
    .strict()
    .parserConfiguration({ 'strip-dashed': true, 'strip-aliased': true })
    .middleware(async (given) => {
      if (given.verbose === true) {
        const { showRequests } = await import('../output/lines/request-lines.ts');
        showRequests((line) => process.stderr.write(`${line}\n`));
      }
      ownArguments(given);
      if (behind !== null) {
        given['--'] = behind;
      }
    })
    .wrap(Math.min(100, process.stdout.columns ?? 80))
    .epilogue(EXIT_CODES)
    .exitProcess(false)
    // `checkWords` has already reported mistakes in the command line, so the command itself must have thrown this error.
    .fail((message, error) => {
      throw error ?? new TonyError('USAGE', message);
    });
  // Without this callback, yargs would print the help or the version and then exit the process.
  await parser.parseAsync(before, {}, (_error, _found, shown) => {
    if (shown !== '') {
      process.stdout.write(`${shown}\n`);
    }
  });
}

/** Removes the keys that yargs adds. Commands pass their arguments to library functions, which reject unknown options. */
function ownArguments(given: Record<string, unknown>): void {
  for (const name of ['_', '$0', 'debug', 'verbose', 'help', 'version']) {
    delete given[name];
  }
}
