import type { ListedState } from '../../../listing/job-lister.ts';
import { wholeNumber } from '../../help/command-description.ts';
import { defineCommand } from '../define-command.ts';
import { CLUSTER_OPTIONS, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const listCommand = defineCommand({
  command: 'list',
  describe: 'List the jobs on the cluster, newest first, and show why jobs are waiting',
  builder: (yargs) =>
    yargs.options({
      all: { alias: 'a', type: 'boolean', describe: "All users' jobs, not only yours", conflicts: ['user', 'local'] },
      local: { type: 'boolean', describe: 'Jobs on this machine, submitted with --local', conflicts: 'user' },
      ended: { alias: 'e', type: 'boolean', default: false, describe: 'Include jobs that have ended (tony-ts history lists older ones)' },
      user: { type: 'string', describe: "This user's jobs", requiresArg: true },
      name: { type: 'string', describe: 'Only jobs whose name contains this text', requiresArg: true },
      queue: { type: 'string', describe: 'Only jobs in this queue', requiresArg: true },
      state: { type: 'string', describe: 'Only jobs in this state, e.g. waiting, running or failed', requiresArg: true },
      limit: { ...wholeNumber(1, 100_000), describe: 'Maximum number of entries' },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ all = false, local = false, user, output, state, limit, ...options }) => {
    const wanted = await stateOf(state);
    const { listJobs } = await import('../../../listing/list-jobs.ts');
    const jobs = await listJobs({ ...options, state: wanted, limit, local, user: all ? null : user, ask: true });
    await show(output, jobs, async (terminal) => {
      if (jobs.length === 0) {
        const areThere = options.ended || wanted !== undefined;
        return [areThere ? 'No jobs found.' : 'No running jobs found. tony-ts list --ended includes jobs that have ended.'];
      }
      const { jobListLines } = await import('../../../output/lines/list-lines.ts');
      return jobListLines(jobs, terminal, { withUsers: all, now: Date.now() });
    });
  },
});

async function stateOf(text: string | undefined): Promise<ListedState | undefined> {
  if (text === undefined) {
    return undefined;
  }
  const { LISTED_STATES } = await import('../../../listing/job-lister.ts');
  const state = LISTED_STATES.find((each) => each === text.toUpperCase());
  if (state !== undefined) {
    return state;
  }
  const { TonyError } = await import('../../../../platform/errors.ts');
  const { suggest } = await import('../../../../platform/text/suggest.ts');
  const meant = suggest(text.toUpperCase(), LISTED_STATES);
  throw new TonyError('USAGE', `There is no state ${text}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, {
    hint: `The states are ${LISTED_STATES.join(', ')}.`,
  });
}
