import type { CommandModule } from 'yargs';
import { wholeNumber } from '../../help/command-description.ts';
import { defineCommand } from '../define-command.ts';
import { CLUSTER_OPTIONS, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

const showCommand = defineCommand({
  command: ['show', '$0'],
  describe: 'Show all limits that the cluster admin has set',
  builder: (yargs) => yargs.options({ ...OUTPUT_OPTION, ...CLUSTER_OPTIONS }),
  handler: async ({ output, ...options }) => {
    const { withCluster } = await import('../../../cluster/with-cluster.ts');
    const { quotaLines } = await import('../../../quotas/quota-lines.ts');
    await withCluster(options, async (cluster) => {
      const { from, quotas } = await cluster.site();
      await show(output, [{ from, quotas }], (terminal) => quotaLines(quotas, from, terminal));
    });
  },
});

const checkCommand = defineCommand({
  command: 'check [conf]',
  describe: 'Check whether a job is within all limits; the exit code is 2 if it is not',
  builder: (yargs) =>
    yargs.positional('conf', { type: 'string', default: 'job.yaml', describe: 'Path to the job file' }).options({
      set: { type: 'string', array: true, nargs: 1, default: [], describe: 'Override a value, e.g. roles.worker.instances=4' },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ conf, set, output, ...options }) => {
    const { loadJob } = await import('../../../../conf/resolve/load-job.ts');
    const { describeViolations, ownerOf, violationsOfWhole } = await import('../../../quotas/check-quotas.ts');
    const { withCluster } = await import('../../../cluster/with-cluster.ts');
    const { knownNames, unknownNameLines, unknownNames } = await import('../../../cluster/unknown-quota-names.ts');
    await withCluster(options, async (cluster, resourceManager) => {
      const site = await cluster.site();
      const unknown = unknownNames(site.quotas, await knownNames(resourceManager));
      const overridden: string[] = [];
      const job = await loadJob(conf, { set, site, onOverridden: (line) => overridden.push(line) });
      const owner = await ownerOf(job, cluster, site);
      const violations = violationsOfWhole(job, owner, site);
      await show(output, [{ from: site.from, owner, overridden, violations, unknown }], async (terminal) => {
        const { fold } = await import('../../../terminal/text-width.ts');
        const fits = `${job.name} is within all limits of ${owner.user} in queue ${owner.queue}.`;
        const verdict = violations.length === 0 ? fits : describeViolations(violations, site.from);
        const lines = [...unknownNameLines(unknown), ...overridden, ...verdict.split('\n')];
        return terminal.live ? lines.flatMap((line) => fold(line, terminal.columns - 1)) : lines;
      });
      if (violations.length > 0) {
        process.exitCode = 2;
      }
    });
  },
});

const usageCommand = defineCommand({
  command: 'usage',
  describe: 'Show how much of each total quota is in use, and which jobs are waiting for it',
  builder: (yargs) =>
    yargs.options({
      user: { type: 'string', describe: "Only this user's totals", requiresArg: true },
      queue: { type: 'string', describe: 'Only totals for this queue', requiresArg: true },
      role: { type: 'string', describe: 'Only totals for this role', requiresArg: true },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ output, ...options }) => {
    const { quotaUsage } = await import('../../../quotas/quota-usage.ts');
    const usage = await quotaUsage(options);
    await show(output, [usage], async (terminal) => {
      const { quotaUsageLines } = await import('../../../quotas/quota-usage-lines.ts');
      return quotaUsageLines(usage, terminal);
    });
  },
});

const emitCapacitySchedulerCommand = defineCommand({
  command: 'capacity-scheduler',
  describe: "Write a capacity-scheduler.xml with the cluster's queues and the quotas that YARN can enforce",
  builder: (yargs) =>
    yargs.options({
      to: { type: 'string', describe: 'Write to this file instead of stdout', requiresArg: true },
      force: { type: 'boolean', default: false, describe: 'Overwrite an existing file' },
      base: {
        type: 'string',
        describe: "The ResourceManager's current capacity-scheduler.xml; the command keeps the other settings in this file",
        requiresArg: true,
      },
      'queue-mode': {
        choices: ['absolute', 'mixed'] as const,
        describe:
          'absolute: all queue sizes as amounts; mixed (default for Hadoop 3.4 and later): only limited resources as amounts, the rest as percentages',
        requiresArg: true,
      },
      'allow-missing-nodes': {
        type: 'boolean',
        default: false,
        describe: 'Calculate queue sizes from the current cluster even if nodes are lost, unhealthy or being decommissioned',
      },
      masters: {
        ...wholeNumber(0),
        default: 8,
        describe: "Number of ApplicationMasters per queue for which to leave room in addition to the queue's total",
      },
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ to, force, masters, ...options }) => {
    const { TonyError } = await import('../../../../platform/errors.ts');
    const { emitCapacityScheduler } = await import('../../../quotas/capacity-scheduler/emit-capacity-scheduler.ts');
    const { xml, notices } = await emitCapacityScheduler({ ...options, masters });
    if (to === undefined) {
      process.stdout.write(xml);
    } else {
      const { writeFile } = await import('node:fs/promises');
      await writeFile(to, xml, { flag: force ? 'w' : 'wx' }).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'EEXIST') {
          throw new TonyError('ALREADY_EXISTS', `${to} already exists.`, { hint: 'Choose another file, or add --force to overwrite it.' });
        }
        throw new TonyError('USAGE', `Cannot write ${to}: ${error.message}.`, { cause: error });
      });
    }
    const { harmless, terminalOf, wrap } = await import('../../../terminal/terminal.ts');
    const width = terminalOf(process.stderr).columns - 1;
    for (const notice of notices) {
      process.stderr.write(`${wrap(`notice: ${harmless(notice)}`, width, 20).join('\n  ')}\n`);
    }
    if (to !== undefined) {
      const { fold } = await import('../../../terminal/text-width.ts');
      const step =
        `To apply ${harmless(to)}, replace the ResourceManager's capacity-scheduler.xml with it, and run yarn rmadmin -refreshQueues. ` +
        'If a notice says so, restart the ResourceManager instead.';
      process.stdout.write(`${fold(step, width).join('\n')}\n`);
    }
  },
});

const emitCommand: CommandModule = {
  command: 'emit',
  describe: 'Write a YARN configuration that enforces quotas for all applications; some quotas have no YARN equivalent',
  builder: (yargs) => yargs.command(emitCapacitySchedulerCommand),
  handler: () => {},
};

export const quotasCommand: CommandModule = {
  command: 'quotas',
  describe: 'Show or check the limits set by the cluster admin, or write a YARN configuration for them',
  builder: (yargs) => yargs.command(showCommand).command(checkCommand).command(usageCommand).command(emitCommand),
  handler: () => {},
};
