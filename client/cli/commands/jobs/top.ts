import { closing } from '../../../../platform/async/closing.ts';
import type { JobSummary } from '../../../listing/job-lister.ts';
import type { OutputFormat } from '../../../output/lines/value-output.ts';
import type { TopOptions } from '../../../top/top.ts';
import { defineCommand } from '../define-command.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

interface Lister {
  list(): Promise<readonly JobSummary[]>;
  close(): void;
}

export const topCommand = defineCommand({
  command: 'top [application]',
  describe: "Show a live table of a job's tasks, or of your running jobs; in a pipe, print the table once",
  builder: (yargs) =>
    yargs.positional('application', { ...APPLICATION_ID, demandOption: false }).options({
      all: { alias: 'a', type: 'boolean', describe: "All users' jobs, not only yours", conflicts: ['application', 'local'] },
      local: { type: 'boolean', describe: 'Jobs on this machine, submitted with --local', conflicts: 'application' },
      interval: { type: 'string', default: '2s', describe: 'Time between updates, e.g. 500ms or 5s', requiresArg: true },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ application, all = false, local = false, interval, output, ...cluster }) => {
    const options = { input: process.stdin, output: process.stdout, intervalMs: await intervalOf(interval) };
    if (application !== undefined) {
      await topOfJob(application, output, cluster, options);
    } else {
      await topOfJobs({ all, local }, output, cluster, options);
    }
  },
});

async function topOfJob(application: string, output: OutputFormat, cluster: ClusterArguments, options: TopOptions): Promise<void> {
  const { connectJob } = await import('../../../connections/connect-job.ts');
  await closing(await connectJob(application, cluster), async (connection) => {
    if (output !== 'table') {
      return await show(output, [{ applicationId: application, ...(await connection.observe()) }], () => []);
    }
    const { topJob } = await import('../../../top/top.ts');
    process.exitCode = await topJob(connection, options);
  });
}

async function topOfJobs(
  { all, local }: { readonly all: boolean; readonly local: boolean },
  output: OutputFormat,
  cluster: ClusterArguments,
  options: TopOptions,
): Promise<void> {
  await closing(local ? await localLister() : await clusterLister(all, cluster), async (lister) => {
    if (output !== 'table') {
      return await show(output, await lister.list(), () => []);
    }
    const { topJobs } = await import('../../../top/top.ts');
    const whose = local ? 'on this machine' : all ? 'of all users' : 'of yours';
    process.exitCode = await topJobs(() => lister.list(), options, { whose, withUsers: all });
  });
}

async function localLister(): Promise<Lister> {
  const { LocalLister } = await import('../../../listing/local-jobs.ts');
  const lister = new LocalLister();
  return { list: () => lister.list({}), close: () => lister.close() };
}

async function clusterLister(all: boolean, cluster: ClusterArguments): Promise<Lister> {
  const { openLister } = await import('../../../listing/job-lister.ts');
  const lister = await openLister(cluster);
  return { list: () => lister.list({ ask: true, ...(all ? { user: null } : {}) }), close: () => lister.close() };
}

/** As in other `top` programs, a number without a unit is in seconds. */
async function intervalOf(text: string): Promise<number> {
  const { parseDuration } = await import('../../../../conf/values/units.ts');
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms !== undefined && ms >= 100 && ms <= 3_600_000) {
    return ms;
  }
  const { TonyError } = await import('../../../../platform/errors.ts');
  throw new TonyError('USAGE', '--interval requires a time from 100ms to 1h, such as 500ms or 5s.');
}
