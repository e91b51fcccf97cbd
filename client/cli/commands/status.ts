import type { Argv, CommandModule } from 'yargs';
import type { OutputFormat } from '../../output/value-output.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';
import { show } from './show.ts';

interface StatusArguments extends ClusterArguments {
  readonly application: string;
  readonly output: OutputFormat;
}

export const statusCommand: CommandModule<object, StatusArguments> = {
  command: 'status <application>',
  describe: 'Show the state of a job, or how it ended',
  builder: (yargs): Argv<StatusArguments> =>
    yargs.positional('application', APPLICATION_ID).options({ ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
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
