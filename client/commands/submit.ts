import type { Argv, CommandModule } from 'yargs';
import { TonyError } from '../../conf/errors.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

interface SubmitArguments extends ClusterArguments {
  readonly conf: string;
  readonly set: readonly string[];
  readonly local: boolean;
  readonly detach: boolean;
  readonly output: 'text' | 'json';
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
    const { output, ask, input } = openConversation(args.output, args.local ? 'on this machine' : 'on HDFS');
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
        if (args.detach) return;
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
