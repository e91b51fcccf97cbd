import { JOB_STATES, type JobState } from '../../../../conf/status/status.ts';
import { defineCommand, wholeNumber } from '../../command/command.ts';
import { CLUSTER_ONLY, CLUSTER_OPTIONS, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const listCommand = defineCommand({
  command: 'list',
  foreignNames: ['ps', 'get', 'jobs', 'ls'],
  describe: 'List the jobs on the cluster, newest first, and show why jobs are waiting',
  options: {
    all: { alias: 'a', type: 'boolean', default: false, describe: 'Include jobs that have ended (tony-ts history lists older ones)' },
    'all-users': { alias: 'A', type: 'boolean', describe: "All users' jobs, not only yours", excludes: ['user', 'local'] },
    local: { type: 'boolean', describe: 'Jobs on this machine, submitted with --local', excludes: ['user', ...CLUSTER_ONLY] },
    user: { type: 'string', describe: "This user's jobs" },
    name: { type: 'string', describe: 'Only jobs whose name contains this text' },
    queue: { type: 'string', describe: 'Only jobs in this queue' },
    state: {
      choices: JOB_STATES,
      describe: 'Only jobs in this state',
      coerce: (state?: string) => state?.toLowerCase() as JobState | undefined,
    },
    limit: { ...wholeNumber(1, 100_000), describe: 'Maximum number of entries' },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ all: ended, allUsers = false, local = false, user, output, state, limit, ...options }) => {
    const { listJobs } = await import('../../../listing/list-jobs.ts');
    const jobs = await listJobs({ ...options, ended, state, limit, local, user: allUsers ? null : user, ask: true });
    await show(output, 'Job', jobs, async (terminal) => {
      if (jobs.length === 0) {
        const areThere = ended || state !== undefined;
        const all = `tony-ts list ${local ? '--local ' : ''}--all`;
        return [areThere ? 'No jobs found.' : `No running jobs found. ${all} includes jobs that have ended.`];
      }
      const { jobListLines } = await import('../../../output/lines/list-lines.ts');
      return jobListLines(jobs, terminal, { withUsers: allUsers, now: Date.now() });
    });
  },
});
