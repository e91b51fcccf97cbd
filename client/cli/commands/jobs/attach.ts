import { closing } from '../../../../platform/async/closing.ts';
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, OUTPUT_OPTION } from '../shared-options.ts';

export const attachCommand = defineCommand({
  command: 'attach <job>',
  describe: 'Follow a submitted job; the exit code reflects its result',
  positionals: { job: JOB },
  options: { ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ job, output: format, ...cluster }) => {
    const { connectNamed } = await import('../job-named.ts');
    const { followToEnd } = await import('../../../output/job/follow-to-end.ts');
    const { openConversation } = await import('../output-streams.ts');
    await closing(await connectNamed(job, cluster), async (connection) => {
      const { output, ask, input } = await openConversation(format);
      process.exitCode = await followToEnd(connection, { output, ask, input, mayDetach: true });
    });
  },
});
