import type { Argv, CommandModule } from 'yargs';
import { APPLICATION_ID, CLUSTER_OPTIONS, type JobArguments, OUTPUT_OPTION } from './shared-options.ts';

export const attachCommand: CommandModule<object, JobArguments> = {
  command: 'attach <application>',
  describe: 'Follow a submitted job; the exit code reflects its result',
  builder: (yargs): Argv<JobArguments> => yargs.positional('application', APPLICATION_ID).options({ ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
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
