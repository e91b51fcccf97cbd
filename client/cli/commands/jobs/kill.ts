import { isOver } from '../../../../conf/status/job-info.ts';
import { closing } from '../../../../platform/async/closing.ts';
import type { KillImpact } from '../../../connections/operations/kill-job.ts';
import type { OutputFormat } from '../../../output/lines/value-output.ts';
import type { Confirmation } from '../../../terminal/confirm.ts';
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, JOB, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const killCommand = defineCommand({
  command: 'kill <job..>',
  foreignNames: ['stop', 'cancel', 'delete', 'rm'],
  describe: 'Kill jobs; in a terminal, first show what will be lost and ask for confirmation',
  positionals: { job: { ...JOB, array: true } },
  options: {
    yes: { alias: 'y', type: 'boolean', default: false, describe: 'Do not ask for confirmation' },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ job: applications, yes, output, ...cluster }) => {
    const { jobId } = await import('../job-named.ts');
    // No job ends because of a mistyped name of another job.
    const ids = await Promise.all(applications.map((application) => jobId(application, cluster)));
    const failures: unknown[] = [];
    for (const id of new Set(ids)) {
      // A job that cannot be killed does not keep the others alive.
      await kill(id, { yes, output, cluster }).catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) {
      throw failures.length === 1 ? failures[0] : new AggregateError(failures);
    }
  },
});

interface KillOptions {
  readonly yes: boolean;
  readonly output: OutputFormat;
  readonly cluster: ClusterArguments;
}

async function kill(id: string, { yes, output, cluster }: KillOptions): Promise<void> {
  const { connectJob } = await import('../../../connections/connect-job.ts');
  const { killImpact, killJob } = await import('../../../connections/operations/kill-job.ts');
  const { INTERRUPTED } = await import('../../../terminal/interrupts.ts');
  const { killedLines } = await import('../../../output/lines/kill-lines.ts');
  await closing(await connectJob(id, cluster), async (connection) => {
    if (!yes && process.stdin.isTTY && process.stdout.isTTY) {
      const job = await connection.observe();
      const impact = killImpact(job, Date.now());
      // With `--output json` or `--output yaml`, stdout must contain only JSON or YAML.
      const stream = output === 'table' ? process.stdout : process.stderr;
      const answer = isOver(job) ? 'yes' : await ask(impact, stream);
      if (answer !== 'yes') {
        stream.write('The job was not killed.\n');
        await show(output, 'Kill', [{ killed: false, ...impact }], () => []);
        process.exitCode = INTERRUPTED;
        return;
      }
    }
    const report = await killJob(connection);
    await show(output, 'Kill', [{ killed: report.killed, ...report.impact }], (terminal) => killedLines(report, terminal));
  });
}

async function ask(impact: KillImpact, stream: NodeJS.WriteStream): Promise<Confirmation> {
  const { killImpactLines } = await import('../../../output/lines/kill-lines.ts');
  const { confirm } = await import('../../../terminal/confirm.ts');
  const { printable, terminalOf } = await import('../../../terminal/terminal.ts');
  const lines = killImpactLines(impact, terminalOf(stream));
  stream.write(lines.map((line) => `${printable(line)}\n`).join(''));
  return confirm('Kill this job? [y/N] ', process.stdin, stream);
}
