import { MEBIBYTE } from '../../../../conf/values/units.ts';
import { ERROR_CODES } from '../../../../platform/errors.ts';
import { defineCommand, defineGroup } from '../../command/command.ts';
import { CLUSTER_OPTIONS, OUTPUT_OPTION, SET_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

const showCommand = defineCommand({
  command: 'show',
  describe: 'Show all limits that the cluster admin has set',
  options: { ...OUTPUT_OPTION, ...CLUSTER_OPTIONS },
  handler: async ({ output, ...options }) => {
    const { withCluster } = await import('../../../cluster/with-cluster.ts');
    const { quotaLines } = await import('../../../quotas/quota-lines.ts');
    await withCluster(options, async (cluster) => {
      const { from, quotas } = await cluster.site();
      await show(output, 'Quotas', [{ from, quotas }], (terminal) => quotaLines(quotas, from, terminal));
    });
  },
});

const checkCommand = defineCommand({
  command: 'check [job-file]',
  describe: 'Check whether a job is within all limits; the exit code is 4 if it is not',
  positionals: { 'job-file': { type: 'string', default: 'job.yaml', describe: 'Path to the job file' } },
  options: {
    set: { ...SET_OPTION, default: [], describe: 'Override a value, e.g. roles.worker.instances=4' },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ jobFile, set, output, ...options }) => {
    const { readJob } = await import('../../../../conf/resolve/load-job.ts');
    const { parse } = await readJob(jobFile);
    const { describeViolations, ownerOf, violationsOfWhole } = await import('../../../quotas/check-quotas.ts');
    const { withCluster } = await import('../../../cluster/with-cluster.ts');
    const { knownNames, unknownNameLines, unknownNames } = await import('../../../cluster/unknown-quota-names.ts');
    let isSiteRead = false;
    await withCluster(options, async (cluster, resourceManager) => {
      const site = await cluster.site();
      isSiteRead = true;
      const overridden: string[] = [];
      const job = parse({ set, site, onNote: (line) => overridden.push(line) });
      const unknown = unknownNames(site.quotas, await knownNames(resourceManager));
      const owner = await ownerOf(job, cluster, site);
      const violations = violationsOfWhole(job, owner, site);
      await show(output, 'QuotaCheck', [{ from: site.from, owner, overridden, violations, unknown }], async (terminal) => {
        const { fold } = await import('../../../terminal/text-width.ts');
        const fits = `${job.name} is within all limits of ${owner.user} in queue ${owner.queue}.`;
        const verdict = violations.length === 0 ? fits : describeViolations(violations, site.from);
        const lines = [...unknownNameLines(unknown), ...overridden, ...verdict.split('\n')];
        return terminal.live ? lines.flatMap((line) => fold(line, terminal.columns - 1)) : lines;
      });
      if (violations.length > 0) {
        process.exitCode = ERROR_CODES.QUOTA_EXCEEDED.exit;
      }
    }).catch((error: unknown) => {
      // As `submit` does, report mistakes in the job even if the site file cannot be read.
      if (!isSiteRead) {
        parse({ set });
      }
      throw error;
    });
  },
});

const usageCommand = defineCommand({
  command: 'usage',
  describe: 'Show how much of each total quota is in use, and which jobs are waiting for it',
  options: {
    user: { type: 'string', describe: "Only this user's totals" },
    queue: { type: 'string', describe: 'Only totals for this queue' },
    role: { type: 'string', describe: 'Only totals for this role' },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ output, ...options }) => {
    const { quotaUsage } = await import('../../../quotas/quota-usage.ts');
    const usage = await quotaUsage(options);
    const totals = usage.totals.map(inBytes);
    const waiting = usage.waiting.map((job) => ({ ...job, shortages: job.shortages.map(inBytes) }));
    await show(output, 'QuotaUsage', [{ ...usage, totals, waiting }], async (terminal) => {
      const { quotaUsageLines } = await import('../../../quotas/quota-usage-lines.ts');
      return quotaUsageLines(usage, terminal);
    });
  },
});

/** Returns amounts of memory in bytes, as in all JSON output. The site file and YARN count MiB. */
function inBytes<Sum extends { readonly resource: string; readonly limit: number; readonly used: number; readonly asked?: number }>(
  sum: Sum,
) {
  if (sum.resource !== 'memory') {
    return sum;
  }
  const asked = sum.asked === undefined ? {} : { asked: sum.asked * MEBIBYTE };
  return { ...sum, resource: 'memoryBytes', limit: sum.limit * MEBIBYTE, used: sum.used * MEBIBYTE, ...asked };
}

export const quotasCommand = defineGroup(
  'quotas',
  'Show or check the limits set by the cluster admin',
  [showCommand, checkCommand, usageCommand],
  showCommand,
);
