import { setTimeout as delay } from 'node:timers/promises';
import type { Argv, CommandModule } from 'yargs';
import { TonyError } from '../../conf/errors.ts';
import type { JobConnection } from '../job-connection.ts';
import type { OutputFormat } from '../value-output.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

/** How long a submit that does not follow the job waits for the address of its pages. */
const PAGES_MS = 5_000;

interface SubmitArguments extends ClusterArguments {
  readonly conf: string;
  readonly set: readonly string[];
  readonly local: boolean;
  readonly detach: boolean;
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
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async (args) => {
    const { loadJob } = await import('../../conf/load-job.ts');
    const { submit } = await import('../submit.ts');
    const { openConversation } = await import('./output-streams.ts');
    const job = await loadJob(args.conf, { set: args.set });
    const { output, ask, input } = await openConversation(args.output, args.local ? 'on this machine' : 'on HDFS');
    try {
      const interrupted = new AbortController();
      // A second one ends this process as it stands.
      const interrupt = (): void => interrupted.abort(new TonyError('INTERRUPTED', 'Interrupted: the job was not submitted.'));
      process.once('SIGINT', interrupt);
      process.once('SIGTERM', interrupt);
      const connection = await submit(job, {
        local: args.local,
        detach: args.detach,
        staging: args.staging,
        resourceManager: args.resourceManager,
        onStaging: (event) => output.staging(event),
        onProgress: (line) => output.say(line),
        signal: interrupted.signal,
      }).finally(() => {
        process.off('SIGINT', interrupt);
        process.off('SIGTERM', interrupt);
      });
      try {
        const { applicationId, trackingUrl } = connection;
        output.submitted({ applicationId, name: job.name, queue: job.queue, trackingUrl });
        if (args.detach) {
          const pages = trackingUrl === null ? await pagesOf(connection) : null;
          if (pages !== null) output.pages(pages);
          return;
        }
        const { followToEnd } = await import('../follow-to-end.ts');
        process.exitCode = await followToEnd(connection, { output, ask, input, mayDetach: !args.local });
      } finally {
        connection.close();
      }
    } finally {
      output.close();
    }
  },
};

/** A local job's ApplicationMaster has just been started: its address is there in a moment. */
async function pagesOf(connection: JobConnection): Promise<string | null> {
  for (const deadline = performance.now() + PAGES_MS; performance.now() < deadline; await delay(50)) {
    const pages = await connection.pages();
    if (pages !== null) return pages;
  }
  return null;
}
