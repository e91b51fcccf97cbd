import { closing } from '../../../../platform/async/closing.ts';
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const describeCommand = defineCommand({
  command: 'describe <job>',
  describe: 'Show all details of a job: first failure, YARN state, roles, tasks, checkpoints, folders, configuration',
  positionals: { job: JOB },
  options: { ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ job, output, ...cluster }) => {
    const { connectNamed } = await import('../job-named.ts');
    const { describeJob } = await import('../../../connections/operations/describe-job.ts');
    await closing(await connectNamed(job, cluster), async (connection) => {
      const description = await describeJob(connection);
      await show(output, 'JobDescription', [description], async (terminal) => {
        const { descriptionLines } = await import('../../../output/lines/description-lines.ts');
        return descriptionLines(description, terminal, Date.now());
      });
    });
  },
});
