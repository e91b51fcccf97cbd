import { closing } from '../../../../platform/async/closing.ts';
import { defineCommand } from '../../command/command.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, OUTPUT_OPTION } from '../shared-options.ts';

export const attachCommand = defineCommand({
  command: 'attach <application>',
  describe: 'Follow a submitted job; the exit code reflects its result',
  positionals: { application: APPLICATION_ID },
  options: { ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ application, output: format, ...cluster }) => {
    const { connectJob } = await import('../../../connections/connect-job.ts');
    const { followToEnd } = await import('../../../output/job/follow-to-end.ts');
    const { openConversation } = await import('../output-streams.ts');
    await closing(await connectJob(application, cluster), async (connection) => {
      const { output, ask, input } = await openConversation(format);
      process.exitCode = await followToEnd(connection, { output, ask, input, mayDetach: true });
    });
  },
});
