import type { Argv, CommandModule } from 'yargs';
import type { OutputFormat } from '../../output/value-output.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

interface AttachArguments extends ClusterArguments {
  readonly application: string;
  readonly output: OutputFormat;
}

export const attachCommand: CommandModule<object, AttachArguments> = {
  command: 'attach <application>',
  describe: 'Follow a submitted job; the exit code is its result',
  builder: (yargs): Argv<AttachArguments> =>
    yargs.positional('application', APPLICATION_ID).options({ ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
  handler: async ({ application, output: format, ...cluster }) => {
    const { connectJob } = await import('../../connections/connect-job.ts');
    const { followToEnd } = await import('../../output/follow-to-end.ts');
    const { openConversation } = await import('./output-streams.ts');
    const connection = await connectJob(application, cluster);
    try {
      const { output, ask, input } = await openConversation(format, '');
      process.exitCode = await followToEnd(connection, { output, ask, input, mayDetach: true });
    } finally {
      connection.close();
    }
  },
};
