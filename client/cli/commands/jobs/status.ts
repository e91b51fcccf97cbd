import { closing } from '../../../../platform/async/closing.ts';
import { defineCommand } from '../../command/command.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const statusCommand = defineCommand({
  command: 'status <application>',
  describe: 'Show the state of a job, or how it ended',
  positionals: { application: APPLICATION_ID },
  options: { ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ application, output, ...cluster }) => {
    const { connectJob } = await import('../../../connections/connect-job.ts');
    await closing(await connectJob(application, cluster), async (connection) => {
      const observation = await connection.observe();
      const pages = observation.result === null ? await connection.pages() : null;
      const value = { applicationId: application, trackingUrl: connection.trackingUrl, pages, ...observation };
      await show(output, [value], async (terminal) => {
        const { statusLines } = await import('../../../output/lines/status-lines.ts');
        return statusLines({ applicationId: application, pages }, observation, terminal, Date.now());
      });
    });
  },
});
