import { setTimeout as delay } from 'node:timers/promises';
import type { Argv, CommandModule } from 'yargs';
import { TonyError } from '../../conf/errors.ts';
import type { Job } from '../../conf/job.ts';
import type { JobConnection } from '../job-connection.ts';
import type { JobOutput } from '../job-output.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { OutputFormat } from '../value-output.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

/** How long a submit that does not follow the job waits for the address of its pages. */
const PAGES_MS = 5_000;

interface SubmitArguments extends ClusterArguments {
  readonly conf: string;
  readonly set: readonly string[];
  readonly local: boolean;
  readonly detach: boolean;
  readonly dryRun?: boolean;
  readonly output: OutputFormat;
}

export const submitCommand: CommandModule<object, SubmitArguments> = {
  command: 'submit',
  describe: 'Run a job and follow it; the exit code is its result',
  builder: (yargs): Argv<SubmitArguments> =>
    yargs.options({
      conf: { type: 'string', default: 'job.yaml', describe: 'The job', requiresArg: true },
      set: { type: 'string', array: true, nargs: 1, default: [], describe: 'Override a value, e.g. roles.worker.instances=4' },
      local: { type: 'boolean', default: false, describe: 'Run it on this machine; no Hadoop is needed' },
      detach: { type: 'boolean', default: false, describe: 'Do not follow: end as soon as it is submitted' },
      'dry-run': {
        type: 'boolean',
        default: false,
        describe: 'Show what would be asked for and whether it fits; upload and submit nothing',
      },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async (args) => {
    const { openConversation } = await import('./output-streams.ts');
    const conversation = await openConversation(args.output, args.local ? 'on this machine' : 'on HDFS');
    const { output } = conversation;
    try {
      const begun = await untilInterrupted((signal) => begin(args, output, signal));
      if (begun === null) return;
      const { connection, job } = begun;
      try {
        const { applicationId, trackingUrl } = connection;
        output.submitted({ applicationId, name: job.name, queue: job.queue, trackingUrl });
        if (args.detach) {
          const pages = trackingUrl === null ? await pagesOf(connection) : null;
          if (pages !== null) output.pages(pages);
          return;
        }
        const { followToEnd } = await import('../follow-to-end.ts');
        process.exitCode = await followToEnd(connection, { ...conversation, mayDetach: !args.local });
      } finally {
        connection.close();
      }
    } finally {
      output.close();
    }
  },
};

/** Submits the job, or shows what that would do: then there is nothing to follow. */
async function begin(
  args: SubmitArguments,
  output: JobOutput,
  signal: AbortSignal,
): Promise<{ connection: JobConnection; job: Job } | null> {
  const { local, detach, staging, resourceManager } = args;
  const { loadJob } = await import('../../conf/load-job.ts');
  const { rehearse, submit } = await import('../submit.ts');
  const { siteFor } = await import('../site-for.ts');
  const given = { local, staging, resourceManager };
  // What is wrong with the job itself is said first, also where the cluster is away.
  const site = await siteFor(given).catch(async (error: unknown) => {
    await loadJob(args.conf, { set: args.set });
    throw error;
  });
  const job = await loadJob(args.conf, { set: args.set, site, onOverridden: (line) => output.say(line) });
  const options = { ...given, onProgress: (line: string) => output.say(line), signal };
  if (!args.dryRun) {
    const onPlan = (plan: JobPlan): void => output.plan(plan);
    const connection = await submit(job, { ...options, detach, onPlan, onStaging: (event) => output.staging(event) });
    return { connection, job };
  }
  const { plan, request } = await rehearse(job, options);
  output.plan(plan);
  if (request !== null) output.request(request);
  if (plan.verdict.type === 'never') process.exitCode = 2;
  return null;
}

/** Ctrl-C ends it and leaves nothing behind; a second one ends this process as it stands. */
async function untilInterrupted<T>(action: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort(new TonyError('INTERRUPTED', 'Interrupted: the job was not submitted.'));
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  try {
    return await action(interrupted.signal);
  } finally {
    process.off('SIGINT', interrupt);
    process.off('SIGTERM', interrupt);
  }
}

/** A local job's ApplicationMaster has just been started: its address is there in a moment. */
async function pagesOf(connection: JobConnection): Promise<string | null> {
  for (const deadline = performance.now() + PAGES_MS; performance.now() < deadline; await delay(50)) {
    const pages = await connection.pages();
    if (pages !== null) return pages;
  }
  return null;
}
