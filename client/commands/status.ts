import type { Argv, CommandModule } from 'yargs';
import type { OutputFormat } from '../value-output.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

interface StatusArguments extends ClusterArguments {
  readonly application: string;
  readonly output: OutputFormat;
}

export const statusCommand: CommandModule<object, StatusArguments> = {
  command: 'status <application>',
  describe: 'Show how a job is, or how it ended',
  builder: (yargs): Argv<StatusArguments> =>
    yargs.positional('application', APPLICATION_ID).options({ ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
  handler: async ({ application, output, ...cluster }) => {
    const { connectJob } = await import('../connect-job.ts');
    const connection = await connectJob(application, cluster);
    try {
      const observation = await connection.observe();
      const pages = observation.result === null ? await connection.pages() : null;
      if (output !== 'table') {
        const { valueWriter } = await import('../value-output.ts');
        const write = await valueWriter(output);
        write({ applicationId: application, trackingUrl: connection.trackingUrl, pages, ...observation });
        return;
      }
      const { statusLines } = await import('../status-lines.ts');
      const { terminalOf } = await import('../terminal.ts');
      const lines = statusLines({ applicationId: application, pages }, observation, terminalOf(process.stdout), Date.now());
      process.stdout.write(lines.map((line) => `${line}\n`).join(''));
    } finally {
      connection.close();
    }
  },
};
