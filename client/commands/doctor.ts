import type { Argv, CommandModule } from 'yargs';
import type { OutputFormat } from '../value-output.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

interface DoctorArguments extends ClusterArguments {
  readonly queue: string;
  readonly output: OutputFormat;
}

const MARKS = { good: 'ok', doubtful: 'doubtful', bad: 'bad', unknown: '-' } as const;

export const doctorCommand: CommandModule<object, DoctorArguments> = {
  command: 'doctor',
  describe: 'Look at everything that a job needs of the cluster, and say what to mend; exit code 3 when something is bad',
  builder: (yargs): Argv<DoctorArguments> =>
    yargs.options({
      queue: { type: 'string', default: 'default', describe: 'The YARN queue to look at', requiresArg: true },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ output, ...options }) => {
    const { clusterChecks } = await import('../doctor/cluster-checks.ts');
    const { diagnose } = await import('../doctor/diagnosis.ts');
    const { terminalOf } = await import('../terminal.ts');
    const { valueWriter } = await import('../value-output.ts');
    const terminal = terminalOf(process.stdout);
    const write = output === 'table' ? null : await valueWriter(output);
    const colours = { good: 'green', doubtful: 'yellow', bad: 'red', unknown: 'dim' } as const;
    const { checks, close } = clusterChecks(options);
    const width = Math.max(...checks.map(({ name }) => name.length));
    try {
      for await (const finding of diagnose(checks)) {
        const { name, state, text, remedy } = finding;
        if (state === 'bad') process.exitCode = 3;
        if (write !== null) write(finding);
        else {
          process.stdout.write(`${terminal.paint(colours[state], MARKS[state].padEnd(8))}  ${name.padEnd(width)}  ${text}\n`);
          if (remedy !== '') process.stdout.write(`${' '.repeat(10)}${remedy}\n`);
        }
      }
    } finally {
      close();
    }
  },
};
