import type { Argv, CommandModule } from 'yargs';
import type { Application } from '../../hadoop/resource-manager-answers.ts';
import type { TableColumn } from '../table-lines.ts';
import type { Style } from '../terminal.ts';
import type { OutputFormat } from '../value-output.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

interface ListArguments extends ClusterArguments {
  readonly all: boolean;
  readonly ended: boolean;
  readonly user?: string | undefined;
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  readonly output: OutputFormat;
}

export const listCommand: CommandModule<object, ListArguments> = {
  command: 'list',
  describe: 'List the jobs on the cluster, the newest first',
  builder: (yargs): Argv<ListArguments> =>
    yargs.options({
      all: { alias: 'a', type: 'boolean', default: false, describe: "Everybody's jobs, not only yours", conflicts: 'user' },
      ended: { alias: 'e', type: 'boolean', default: false, describe: 'Also jobs that have ended (tony-ts history knows older ones)' },
      user: { type: 'string', describe: "This user's jobs", requiresArg: true },
      name: { type: 'string', describe: 'Only jobs with this in their name', requiresArg: true },
      queue: { type: 'string', describe: 'Only jobs of this queue', requiresArg: true },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ all, user, output, ...options }) => {
    const { listJobs } = await import('../list-jobs.ts');
    const jobs = await listJobs({ ...options, user: all ? null : user });
    if (output !== 'table') {
      const { valueWriter } = await import('../value-output.ts');
      const write = await valueWriter(output);
      for (const job of jobs) write(job);
      return;
    }
    if (jobs.length === 0) {
      process.stdout.write(
        options.ended ? 'There are no such jobs.\n' : 'No such job runs. tony-ts list --ended shows those that have ended.\n',
      );
      return;
    }
    const { tableLines } = await import('../table-lines.ts');
    const { terminalOf } = await import('../terminal.ts');
    process.stdout.write(`${tableLines(jobs, await columns(all), terminalOf(process.stdout)).join('\n')}\n`);
  },
};

async function columns(withUsers: boolean): Promise<TableColumn<Application>[]> {
  const { formatDuration, formatMemory } = await import('../../conf/units.ts');
  const now = Date.now();
  const took = ({ startedAt, finishedAt }: Application): string =>
    // Hidden where the job's view ACL does not let one look.
    startedAt === 0 ? '-' : formatDuration(1000 * Math.round(((finishedAt ?? now) - startedAt) / 1000));
  return [
    { title: 'JOB', cell: ({ id }) => id },
    ...(withUsers ? [{ title: 'USER', cell: ({ user }: Application) => user }] : []),
    { title: 'NAME', cell: ({ name }) => name, flexible: true },
    { title: 'QUEUE', cell: ({ queue }) => queue.replace(/^root\./, '') },
    { title: 'STATE', cell: stateOf, style: styleOf },
    { title: 'TOOK', cell: took, align: 'right' },
    { title: 'TASKS', cell: (job) => (job.runningContainers < 1 ? '-' : String(job.runningContainers - 1)), align: 'right' },
    { title: 'MEMORY', cell: ({ used: { 'memory-mb': memory = 0 } }) => (memory === 0 ? '-' : formatMemory(memory)), align: 'right' },
  ];
}

/** How it ended says more than that it has. */
function stateOf({ state, finalStatus }: Application): string {
  return state === 'FINISHED' ? finalStatus : state;
}

function styleOf(job: Application): Style {
  switch (stateOf(job)) {
    case 'SUCCEEDED':
      return 'green';
    case 'FAILED':
    case 'KILLED':
      return 'red';
    case 'RUNNING':
      return 'cyan';
    default:
      return 'yellow';
  }
}
