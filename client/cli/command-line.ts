import { EXIT_CODES, TonyError } from '../../platform/errors.ts';
import { withLocalHint } from '../cluster/without-cluster.ts';
import { type Command, describeOptions } from './command/command.ts';
import { argumentsOf, checkCommand, helpHint, nameOf, type ReadWords, readWords } from './command/read-words.ts';
import { cacheCommand } from './commands/cluster/cache.ts';
import { doctorCommand } from './commands/cluster/doctor.ts';
import { historyCommand } from './commands/cluster/history.ts';
import { quotasCommand } from './commands/cluster/quotas.ts';
import { runtimeCommand } from './commands/cluster/runtime.ts';
import { completionCommand } from './commands/help/completion.ts';
import { explainCommand } from './commands/help/explain.ts';
import { VERSION, versionCommand } from './commands/help/version.ts';
import { importCommand } from './commands/job-files/import.ts';
import { initCommand } from './commands/job-files/init.ts';
import { attachCommand } from './commands/jobs/attach.ts';
import { describeCommand } from './commands/jobs/describe.ts';
import { eventsCommand } from './commands/jobs/events.ts';
import { filesCommand } from './commands/jobs/files.ts';
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

const EPILOGUE = `Exit codes: ${Object.entries(EXIT_CODES)
  .map(([code, meaning]) => `${code} ${meaning.replace(/:.*/, '')}`)
  .join('; ')}.

tony-ts explain CODE explains an error, and tony-ts explain KEY a key of job.yaml. tony-ts completion prints a script that lets your shell complete commands, jobs and tasks.`;

const ALWAYS = {
  help: { type: 'boolean', alias: 'h', describe: 'Show help' },
  debug: { type: 'boolean', default: false, describe: 'Show the stack trace if an error occurs' },
  verbose: { type: 'boolean', alias: 'v', default: false, describe: 'Show each HTTP request on stderr' },
  version: { type: 'boolean', describe: 'Show version number' },
} as const;

/** The command `tony-ts` itself, with all commands below it. */
export const COMMAND_LINE: Command = {
  name: '',
  describe: 'Distributed training on Hadoop YARN: TensorFlow.js, PyTorch, TensorFlow, JAX, Horovod, MPI and other programs',
  foreignNames: [],
  positionals: [],
  options: describeOptions(ALWAYS),
  commands: [
    initCommand,
    importCommand,
    submitCommand,
    listCommand,
    attachCommand,
    statusCommand,
    describeCommand,
    topCommand,
    logsCommand,
    eventsCommand,
    filesCommand,
    killCommand,
    execCommand,
    shellCommand,
    forwardCommand,
    notebookCommand,
    feedCommand,
    historyCommand,
    cacheCommand,
    tensorboardCommand,
    doctorCommand,
    quotasCommand,
    explainCommand,
    runtimeCommand,
    completionCommand,
    versionCommand,
  ],
  otherwise: null,
  epilogue: EPILOGUE,
  examples: [],
  handler: null,
};

/** Returns the options that determine how errors are formatted, even if the command line is invalid. */
export function errorOptions(words: readonly string[]): { readonly output: string; readonly debug: boolean } {
  const { given } = readWords(COMMAND_LINE, words);
  return { output: lastValue(given, 'output') ?? 'table', debug: given.get('debug') === true };
}

function lastValue(given: ReadWords['given'], name: string): string | undefined {
  const values = given.get(name);
  return typeof values === 'object' ? values.at(-1) : undefined;
}

/**
 * Parses the command line and runs the command. Commands import their dependencies lazily, so that `--help` is fast.
 * @throws TonyError USAGE with the closest match, or the error that the command throws
 */
export async function runCommandLine(given: readonly string[]): Promise<void> {
  // Many other programs have a command `help`.
  const words = given[0] === 'help' ? [...given.slice(1), '--help'] : given;
  if (words[0] === 'completion' && words[1] === '--words') {
    const { completionLines } = await import('./completion/complete.ts');
    const lines = await completionLines(COMMAND_LINE, words.slice(2));
    process.stdout.write(lines.map((line) => `${line}\n`).join(''));
    return;
  }
  const read = readWords(COMMAND_LINE, words);
  const { path, runs } = read;
  const has = (name: string): boolean => read.given.get(name) === true;
  if (has('help')) {
    checkCommand(read);
    const { helpText } = await import('./command/help-text.ts');
    process.stdout.write(await helpText(path));
    return;
  }
  if (has('version')) {
    const format = lastValue(read.given, 'output');
    if (format !== undefined) {
      return await runCommandLine(['version', `--output=${format}`]);
    }
    process.stdout.write(`${VERSION}\n`);
    return;
  }
  try {
    const { help, debug, verbose, version, ...args } = argumentsOf(read);
    if (verbose === true) {
      const { showRequests } = await import('../output/lines/request-lines.ts');
      showRequests((line) => process.stderr.write(`${line}\n`));
    }
    await runs.handler?.(args as never);
  } catch (error) {
    throw withCommandHint(error, read);
  }
}

const GENERAL_HINT = new TonyError('USAGE', '').hint;

/** Adds the command to the hint of a USAGE error that the command itself throws, and of an error without a cluster. */
function withCommandHint(error: unknown, read: ReadWords): unknown {
  const { path } = read;
  const isGeneral = error instanceof TonyError && error.code === 'USAGE' && error.hint === GENERAL_HINT;
  if (!isGeneral) {
    return withLocalHint(error, offersLocal(read) ? `\`${nameOf(path)} --local\` uses this machine` : null);
  }
  return new TonyError('USAGE', error.message, { hint: helpHint(path), cause: error });
}

/** Whether the command would accept `--local` in addition to the typed words. */
function offersLocal({ runs, given, positionals }: ReadWords): boolean {
  const local = runs.options.find(({ name }) => name === 'local');
  const excluded = new Set([...given.keys(), ...runs.positionals.slice(0, positionals.length).map(({ name }) => name)]);
  return local !== undefined && given.get('local') !== true && local.excludes.every((name) => !excluded.has(name));
}
