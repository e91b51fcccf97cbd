import type { Argv, CommandModule } from 'yargs';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments } from './shared-options.ts';

interface LogsArguments extends ClusterArguments {
  readonly application: string;
  readonly task?: string | undefined;
  readonly tail?: number | undefined;
  readonly follow: boolean;
  readonly executor: boolean;
}

export const logsCommand: CommandModule<object, LogsArguments> = {
  command: 'logs <application> [task]',
  describe: 'Show what the programs of a job wrote',
  builder: (yargs): Argv<LogsArguments> =>
    yargs
      .positional('application', APPLICATION_ID)
      .positional('task', { type: 'string', describe: 'ROLE, ROLE:INDEX or master; else every task' })
      .options({
        tail: { type: 'number', describe: 'Only so many last lines of each file', requiresArg: true },
        follow: { alias: 'f', type: 'boolean', default: false, describe: 'Go on until the job is over' },
        executor: { type: 'boolean', default: false, describe: "The executor's own log instead of the program's output" },
        ...CLUSTER_OPTIONS,
      }),
  handler: async ({ application, task, tail, follow, executor, ...cluster }) => {
    const { TonyError } = await import('../../conf/errors.ts');
    if (tail !== undefined && !(Number.isInteger(tail) && tail > 0 && tail <= 1_000_000)) {
      throw new TonyError('USAGE', '--tail wants a number of lines, from 1 to 1000000.');
    }
    const { connectJob } = await import('../connect-job.ts');
    const { jobLogs } = await import('../job-logs.ts');
    const connection = await connectJob(application, cluster);
    try {
      const files = executor ? ['tony.log'] : ['stdout', 'stderr'];
      const single = task !== undefined && (task.includes(':') || task === 'master');
      for await (const line of jobLogs(connection, { task, tail, follow, files })) {
        // What the program wrote to its stderr goes to ours.
        const stream = line.file === 'stderr' ? process.stderr : process.stdout;
        stream.write(single ? `${line.text}\n` : `${line.task} | ${line.text}\n`);
      }
    } finally {
      connection.close();
    }
  },
};
