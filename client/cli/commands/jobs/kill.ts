import { closing } from '../../../../platform/async/closing.ts';
import type { KillImpact } from '../../../connections/operations/kill-job.ts';
import type { Confirmation } from '../../../terminal/confirm.ts';
import { defineCommand } from '../define-command.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, OUTPUT_OPTION } from '../shared-options.ts';
import { show } from '../show.ts';

export const killCommand = defineCommand({
  command: 'kill <application>',
  describe: 'Kill a job; in a terminal, first show what will be lost and ask for confirmation',
  builder: (yargs) =>
    yargs.positional('application', APPLICATION_ID).options({
      yes: { alias: 'y', type: 'boolean', default: false, describe: 'Do not ask for confirmation' },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ application, yes, output, ...cluster }) => {
    const { connectJob } = await import('../../../connections/connect-job.ts');
    const { killImpact, killJob } = await import('../../../connections/operations/kill-job.ts');
    const { INTERRUPTED } = await import('../../../terminal/interrupts.ts');
    const { killedLines } = await import('../../../output/lines/kill-lines.ts');
    await closing(await connectJob(application, cluster), async (connection) => {
      if (!yes && process.stdin.isTTY && process.stdout.isTTY) {
        const observation = await connection.observe();
        const impact = killImpact(application, observation, Date.now());
        // With `--output json` or `--output yaml`, stdout must contain only JSON or YAML.
        const stream = output === 'table' ? process.stdout : process.stderr;
        const answer = observation.result === null ? await ask(impact, stream) : 'yes';
        if (answer !== 'yes') {
          stream.write('The job was not killed.\n');
          await show(output, [{ killed: false, ...impact }], () => []);
          process.exitCode = answer === 'interrupted' ? INTERRUPTED : 1;
          return;
        }
      }
      const report = await killJob(connection);
      await show(output, [{ killed: report.killed, ...report.impact }], (terminal) => killedLines(report, terminal));
    });
  },
});

async function ask(impact: KillImpact, stream: NodeJS.WriteStream): Promise<Confirmation> {
  const { killImpactLines } = await import('../../../output/lines/kill-lines.ts');
  const { confirm } = await import('../../../terminal/confirm.ts');
  const { printable, terminalOf } = await import('../../../terminal/terminal.ts');
  const lines = killImpactLines(impact, terminalOf(stream));
  stream.write(lines.map((line) => `${printable(line)}\n`).join(''));
  return confirm('Kill this job? [y/N] ', process.stdin, stream);
}
