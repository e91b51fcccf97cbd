import { setTimeout as delay } from 'node:timers/promises';
import { FRAMEWORK_NAMES } from '../../../../conf/frameworks/names.ts';
import type { Job } from '../../../../conf/job.ts';
import type { LoadOptions } from '../../../../conf/resolve/load-job.ts';
import { parseMemory } from '../../../../conf/values/units.ts';
import { ERROR_CODES, TonyError } from '../../../../platform/errors.ts';
import type { JobConnection } from '../../../connections/job-connection.ts';
import type { JobOutput } from '../../../output/job/job-output.ts';
import type { ProgramLines } from '../../../output/job/program-lines.ts';
import { SHOWN_LOGS, type ShownLogs } from '../../../output/job/shown-logs.ts';
import type { OutputFormat } from '../../../output/lines/value-output.ts';
import type { CommandJob } from '../../../submit/command-job.ts';
import { splitVariable } from '../../../submit/split-variable.ts';
import { checkedText, defineCommand, wholeNumber, wordsAfterDashes } from '../../command/command.ts';
import { CLUSTER_ONLY, CLUSTER_OPTIONS, type ClusterArguments, JOB_FILE_OPTION, OUTPUT_OPTION, SET_OPTION } from '../shared-options.ts';

/** How long (ms) `submit --detach` waits until the URL of the job's pages is known. */
const PAGES_MS = 5_000;

/** The arguments that describe the job. */
interface JobArguments extends Omit<CommandJob, 'words'> {
  readonly conf?: string | undefined;
  readonly jobFile?: string | undefined;
  /** Words after `--`. */
  readonly command?: readonly string[] | undefined;
}

interface SubmitArguments extends ClusterArguments, JobArguments {
  readonly set: readonly string[];
  readonly local: boolean;
  readonly detach: boolean;
  readonly dryRun?: boolean;
  readonly logs?: ShownLogs | undefined;
  readonly quiet: boolean;
  readonly output: OutputFormat;
}

function memoryText(text: string, place: string): void {
  if (parseMemory(text) === undefined) {
    throw new TonyError('USAGE', `${place} requires a size, such as 512m or 4g, not ${text}.`);
  }
}

const COMMAND_OPTIONS = {
  instances: { ...wholeNumber(1), describe: 'For a command: number of workers [default: 1]' },
  memory: { ...checkedText(memoryText), describe: 'For a command: memory for each worker, such as 4g' },
  vcores: { ...wholeNumber(1), describe: 'For a command: number of virtual cores for each worker' },
  gpus: { ...wholeNumber(0), describe: 'For a command: number of GPUs for each worker' },
  framework: { choices: FRAMEWORK_NAMES, describe: 'For a command: framework that the program uses' },
  source: { type: 'string', describe: 'For a command: folder with your code, or none [default: the current folder]' },
} as const;

/** The keys of the job file that these options set for a command. */
const KEYS_OF_OPTIONS: Readonly<Record<keyof typeof COMMAND_OPTIONS, string>> = {
  instances: 'roles.worker.instances',
  memory: 'roles.worker.resources.memory',
  vcores: 'roles.worker.resources.vcores',
  gpus: 'roles.worker.resources.gpus',
  framework: 'framework',
  source: 'source',
};

const OPTION_NAMES = Object.keys(COMMAND_OPTIONS) as (keyof typeof COMMAND_OPTIONS)[];

export const submitCommand = defineCommand({
  command: 'submit [job-file] [command..]',
  foreignNames: ['run', 'launch', 'apply', 'create'],
  describe: 'Run a job and follow it; the exit code reflects its result',
  positionals: {
    'job-file': { type: 'string', describe: 'Path to the job file [default: job.yaml]' },
    command: wordsAfterDashes('Command for one or more workers to run, instead of a job file'),
  },
  options: {
    conf: { ...JOB_FILE_OPTION, describe: 'Path to the job file; the same as the argument', excludes: 'job-file' },
    name: { type: 'string', describe: 'Name of the job' },
    queue: { type: 'string', describe: 'YARN queue of the job' },
    env: { type: 'string', array: true, describe: 'An environment variable for all programs, such as EPOCHS=3', parse: splitVariable },
    set: { ...SET_OPTION, default: [], describe: 'Override a value, e.g. roles.worker.instances=4' },
    local: { type: 'boolean', default: false, describe: 'Run the job on this machine, without Hadoop', excludes: CLUSTER_ONLY },
    detach: { type: 'boolean', alias: 'd', default: false, describe: 'Exit as soon as the job is submitted', excludes: 'logs' },
    'dry-run': {
      type: 'boolean',
      default: false,
      describe: 'Show what the job would request and whether it would fit, without uploading or submitting anything',
    },
    logs: {
      choices: SHOWN_LOGS,
      describe: "Show the chief's output, the output of all tasks, or no output [default: chief; none with -q, --output json or yaml]",
    },
    quiet: {
      type: 'boolean',
      alias: 'q',
      default: false,
      describe: 'Print only the job ID on stdout, and failures on stderr',
    },
    ...COMMAND_OPTIONS,
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async (args) => {
    const { openConversation } = await import('../output-streams.ts');
    const conversation = await openConversation(args.output, { isLocal: args.local, quiet: args.quiet });
    const { output } = conversation;
    try {
      const { untilInterrupted } = await import('../../../terminal/until-interrupted.ts');
      // If the user interrupts `begin`, no job is left running.
      const message = 'Interrupted. The job is not running.';
      const begun = await untilInterrupted(
        message,
        (signal) => begin(args, output, signal),
        () => output.close(),
      );
      if (begun === null) {
        return;
      }
      const { connection, job } = begun;
      try {
        const { id, trackingUrl, records } = connection;
        output.submitted({ id, name: job.name, user: records.user, queue: job.queue, trackingUrl });
        if (args.detach) {
          const pages = trackingUrl === null ? await pagesOf(connection) : null;
          if (pages !== null) {
            output.pages(pages);
          }
          return;
        }
        const { followToEnd } = await import('../../../output/job/follow-to-end.ts');
        const programs = await programLines(args, job, connection, output);
        process.exitCode = await followToEnd(connection, { ...conversation, mayDetach: !args.local, ...(programs && { programs }) });
      } finally {
        connection.close();
      }
    } finally {
      output.close();
    }
  },
});

/** Submits the job and returns a connection to it, or null after a dry run. */
async function begin(
  args: SubmitArguments,
  output: JobOutput,
  signal: AbortSignal,
): Promise<{ connection: JobConnection; job: Job } | null> {
  const { set, dryRun = false, local, detach, resourceManager, staging } = args;
  const load = await jobLoader(args);
  const { dryRunOf, openSubmission, send } = await import('../../../submit/open-submission.ts');
  const submission = await openSubmission((site) => load({ set, site, onNote: (line) => output.say(line) }), {
    local,
    detach,
    resourceManager,
    staging,
    dryRun,
    signal,
    onProgress: (line) => output.say(line),
    onPlan: (plan) => output.plan(plan),
    onStaging: (event) => output.staging(event),
  });
  if (!dryRun) {
    return { connection: await send(submission), job: submission.job };
  }
  const { plan, request } = await dryRunOf(submission);
  output.plan(plan);
  if (request !== null) {
    output.request(request);
  }
  if (plan.verdict.type === 'impossible' || (plan.verdict.type === 'rejected' && request === null)) {
    process.exitCode = ERROR_CODES.JOB_DENIED.exit;
  }
  return null;
}

async function programLines(
  { logs, quiet, output: format }: SubmitArguments,
  job: Job,
  connection: JobConnection,
  output: JobOutput,
): Promise<ProgramLines | null> {
  const shown = logs ?? (format === 'table' && !quiet ? 'chief' : 'none');
  if (shown === 'none') {
    return null;
  }
  const { ProgramLines } = await import('../../../output/job/program-lines.ts');
  const task = shown === 'all' ? undefined : `${job.roles.find(({ chief }) => chief)?.name}:0`;
  return new ProgramLines(connection, task, (lines, tasks) => output.log(lines, tasks));
}

/** Returns a function that loads the job from its file, or creates it from the command after `--`. */
export async function jobLoader({
  conf,
  jobFile = conf,
  command = [],
  ...args
}: JobArguments): Promise<(options: LoadOptions) => Promise<Job>> {
  const { name, queue, env = [], instances, memory, vcores, gpus, framework, source } = args;
  const ofCommand = { instances, memory, vcores, gpus, framework, source };
  if (command.length > 0 && jobFile !== undefined) {
    throw new TonyError('USAGE', `The job file ${jobFile} and a command after -- cannot be combined: a job file contains its commands.`, {
      hint: "To change a command of the job file, use --set 'command=...'.",
    });
  }
  if (command.length > 0) {
    const { commandJob } = await import('../../../submit/command-job.ts');
    return async (options) => commandJob({ ...ofCommand, name, queue, env, words: command }, process.cwd(), options);
  }
  const unused = OPTION_NAMES.find((option) => ofCommand[option] !== undefined);
  if (unused !== undefined) {
    throw new TonyError('USAGE', `--${unused} requires a command, as in tony-ts submit --${unused} ... -- COMMAND.`, {
      hint: `For a job file, write --set ${KEYS_OF_OPTIONS[unused]}=${ofCommand[unused]}.`,
    });
  }
  const { readJob } = await import('../../../../conf/resolve/load-job.ts');
  const { parse } = await readJob(jobFile ?? 'job.yaml');
  const own = assignments({ name, queue, env });
  return async ({ set = [], ...options }) => parse({ ...options, set: [...set, ...own] });
}

/** Returns the options as assignments for `--set`. */
function assignments({ name, queue, env = [] }: JobArguments): string[] {
  const variables = env.map(splitVariable).map(([variable, value]) => [`env.${variable.replaceAll('.', '\\.')}`, value] as const);
  return [['name', name] as const, ['queue', queue] as const, ...variables].flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${JSON.stringify(value)}`],
  );
}

async function pagesOf(connection: JobConnection): Promise<string | null> {
  for (const deadline = performance.now() + PAGES_MS; performance.now() < deadline; await delay(50)) {
    const pages = await connection.pages();
    if (pages !== null) {
      return pages;
    }
  }
  return null;
}
