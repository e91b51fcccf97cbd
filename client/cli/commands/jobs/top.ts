import type { ListedJob } from '../../../../conf/status/job-info.ts';
import { parseDuration } from '../../../../conf/values/units.ts';
import { closing } from '../../../../platform/async/closing.ts';
import { TonyError } from '../../../../platform/errors.ts';
import type { OutputFormat } from '../../../output/lines/value-output.ts';
import type { TopOptions } from '../../../top/top.ts';
import { defineCommand, parsedText } from '../../command/command.ts';
import { CLUSTER_ONLY, CLUSTER_OPTIONS, type ClusterArguments, JOB, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

const INTERVAL_MS = 2_000;

interface Lister {
  list(): Promise<readonly ListedJob[]>;
  close(): void;
}

export const topCommand = defineCommand({
  command: 'top [job]',
  describe: "Show a live table of a job's tasks, or of your running jobs; in a pipe, print the table once",
  positionals: { job: { ...JOB, demandOption: false } },
  options: {
    'all-users': { alias: 'A', type: 'boolean', describe: "All users' jobs, not only yours", excludes: ['job', 'local'] },
    local: { type: 'boolean', describe: 'Jobs on this machine, submitted with --local', excludes: ['job', ...CLUSTER_ONLY] },
    interval: { ...parsedText(intervalText), describe: 'Time between updates, e.g. 500ms or 5s [default: 2s]' },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ job, allUsers = false, local = false, interval, output, ...cluster }) => {
    const options = { input: process.stdin, output: process.stdout, intervalMs: interval ?? INTERVAL_MS };
    if (job !== undefined) {
      await topOfJob(job, output, cluster, options);
    } else {
      await topOfJobs({ allUsers, local }, output, cluster, options);
    }
  },
});

async function topOfJob(job: string, output: OutputFormat, cluster: ClusterArguments, options: TopOptions): Promise<void> {
  const { connectNamed } = await import('../job-named.ts');
  await closing(await connectNamed(job, cluster), async (connection) => {
    if (output !== 'table') {
      return await show(output, 'Job', [await connection.observe()], () => []);
    }
    const { topJob } = await import('../../../top/top.ts');
    process.exitCode = await topJob(connection, options);
  });
}

async function topOfJobs(
  { allUsers, local }: { readonly allUsers: boolean; readonly local: boolean },
  output: OutputFormat,
  cluster: ClusterArguments,
  options: TopOptions,
): Promise<void> {
  await closing(local ? await localLister() : await clusterLister(allUsers, cluster), async (lister) => {
    if (output !== 'table') {
      return await show(output, 'Job', await lister.list(), () => []);
    }
    const { topJobs } = await import('../../../top/top.ts');
    const whose = local ? 'on this machine' : allUsers ? 'of all users' : 'of yours';
    process.exitCode = await topJobs(() => lister.list(), options, { whose, withUsers: allUsers });
  });
}

async function localLister(): Promise<Lister> {
  const { LocalLister } = await import('../../../listing/local-jobs.ts');
  const lister = new LocalLister();
  return { list: () => lister.list({}), close: () => lister.close() };
}

async function clusterLister(allUsers: boolean, cluster: ClusterArguments): Promise<Lister> {
  const { openLister } = await import('../../../listing/job-lister.ts');
  const lister = await openLister(cluster);
  return { list: () => lister.list({ ask: true, ...(allUsers ? { user: null } : {}) }), close: () => lister.close() };
}

/** As in other `top` programs, a number without a unit is in seconds. */
function intervalText(text: string, place: string): number {
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms !== undefined && ms >= 100 && ms <= 3_600_000) {
    return ms;
  }
  throw new TonyError('USAGE', `${place} requires a time from 100ms to 1h, such as 500ms or 5s, not ${text}.`);
}
