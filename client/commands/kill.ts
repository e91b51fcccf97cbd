import type { Argv, CommandModule } from 'yargs';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments } from './shared-options.ts';

interface KillArguments extends ClusterArguments {
  readonly application: string;
}

export const killCommand: CommandModule<object, KillArguments> = {
  command: 'kill <application>',
  describe: 'End a job',
  builder: (yargs): Argv<KillArguments> => yargs.positional('application', APPLICATION_ID).options(CLUSTER_OPTIONS),
  handler: async ({ application, ...cluster }) => {
    const { connectJob } = await import('../connect-job.ts');
    const { killJob } = await import('../kill-job.ts');
    const connection = await connectJob(application, cluster);
    try {
      const { killed, observation } = await killJob(connection);
      const { status, result } = observation;
      const busy = status?.tasks.filter(({ state }) => state === 'running' || state === 'registered').length ?? 0;
      const what = status === null ? '' : ` (${status.name}, ${busy} of ${status.tasks.length} tasks were running)`;
      const line = killed
        ? `killed ${application}${what}`
        : `${application} had ended already${result === null ? '' : `: ${result.state}`}`;
      process.stdout.write(`${line}\n`);
    } finally {
      connection.close();
    }
  },
};
