import type { Argv, CommandModule } from 'yargs';
import { APPLICATION_ID, CLUSTER_OPTIONS, type JobArguments, OUTPUT_OPTION } from './shared-options.ts';
import { show } from './show.ts';

export const statusCommand: CommandModule<object, JobArguments> = {
  command: 'status <application>',
  describe: 'Show the state of a job, or how it ended',
  builder: (yargs): Argv<JobArguments> => yargs.positional('application', APPLICATION_ID).options({ ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
  handler: async ({ application, output, ...cluster }) => {
    const { connectJob } = await import('../../connections/connect-job.ts');
    const connection = await connectJob(application, cluster);
    try {
      const observation = await connection.observe();
      const pages = observation.result === null ? await connection.pages() : null;
      const value = { applicationId: application, trackingUrl: connection.trackingUrl, pages, ...observation };
      await show(output, [value], async (terminal) => {
        const { statusLines } = await import('../../output/status-lines.ts');
        return statusLines({ applicationId: application, pages }, observation, terminal, Date.now());
      });
    } finally {
      connection.close();
    }
  },
};
