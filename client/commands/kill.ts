import type { Argv, CommandModule } from 'yargs';
import type { Answer } from '../confirm.ts';
import type { Casualties } from '../kill-job.ts';
import type { OutputFormat } from '../value-output.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';
import { show } from './show.ts';

interface KillArguments extends ClusterArguments {
  readonly application: string;
  readonly yes: boolean;
  readonly output: OutputFormat;
}

export const killCommand: CommandModule<object, KillArguments> = {
  command: 'kill <application>',
  describe: 'End a job; in a terminal it says what will end with it, and asks',
  builder: (yargs): Argv<KillArguments> =>
    yargs.positional('application', APPLICATION_ID).options({
      yes: { alias: 'y', type: 'boolean', default: false, describe: 'Do not ask' },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ application, yes, output, ...cluster }) => {
    const { connectJob } = await import('../connect-job.ts');
    const { casualtiesOf, killJob } = await import('../kill-job.ts');
    const { INTERRUPTED } = await import('../interrupts.ts');
    const { killedLines } = await import('../kill-lines.ts');
    const connection = await connectJob(application, cluster);
    try {
      // Only a person at a terminal can answer.
      if (!yes && process.stdin.isTTY && process.stdout.isTTY) {
        const observation = await connection.observe();
        const casualties = casualtiesOf(application, observation, Date.now());
        // Where values were asked for, stdout is for them.
        const stream = output === 'table' ? process.stdout : process.stderr;
        const answer = observation.result === null ? await ask(casualties, stream) : 'yes';
        if (answer !== 'yes') {
          stream.write('It goes on.\n');
          await show(output, [{ killed: false, ...casualties }], () => []);
          process.exitCode = answer === 'interrupted' ? INTERRUPTED : 1;
          return;
        }
      }
      const report = await killJob(connection);
      await show(output, [{ killed: report.killed, ...report.casualties }], (terminal) => killedLines(report, terminal));
    } finally {
      connection.close();
    }
  },
};

async function ask(casualties: Casualties, stream: NodeJS.WriteStream): Promise<Answer> {
  const { casualtyLines } = await import('../kill-lines.ts');
  const { confirm } = await import('../confirm.ts');
  const { terminalOf } = await import('../terminal.ts');
  const lines = casualtyLines(casualties, terminalOf(stream));
  stream.write(lines.map((line) => `${line}\n`).join(''));
  return confirm('Kill it? [y/N] ', process.stdin, stream);
}
