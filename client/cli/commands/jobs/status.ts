import { closing } from '../../../../platform/async/closing.ts';
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const statusCommand = defineCommand({
  command: 'status <job>',
  describe: 'Show the state of a job, or how it ended',
  positionals: { job: JOB },
  options: { ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ job, output, ...cluster }) => {
    const { connectNamed } = await import('../job-named.ts');
    await closing(await connectNamed(job, cluster), async (connection) => {
      const { observeWithPages } = await import('../../../connections/operations/observe-with-pages.ts');
      const job = await observeWithPages(connection);
      await show(output, 'Job', [job], async (terminal) => {
        const { statusLines } = await import('../../../output/lines/status-lines.ts');
        return statusLines(job, terminal, Date.now());
      });
    });
  },
});
