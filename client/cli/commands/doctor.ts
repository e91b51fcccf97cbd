import type { Argv, CommandModule } from 'yargs';
import type { OutputFormat } from '../../output/value-output.ts';
import { CLUSTER_OPTIONS, type ClusterArguments, OUTPUT_OPTION } from './shared-options.ts';

interface DoctorArguments extends ClusterArguments {
  readonly queue: string;
  readonly output: OutputFormat;
}

const MARKS = { good: 'ok', doubtful: 'doubtful', bad: 'bad', unknown: '-' } as const;
const MARK_WIDTH = 8;
const NAME_WIDTH = 16;
const GAP = '  ';

export const doctorCommand: CommandModule<object, DoctorArguments> = {
  command: 'doctor',
  describe: 'Check everything that a job needs from the cluster, and show how to fix failed checks; the exit code is 3 if a check fails',
  builder: (yargs): Argv<DoctorArguments> =>
    yargs.options({
      queue: { type: 'string', default: 'default', describe: 'The YARN queue to check', requiresArg: true },
      ...OUTPUT_OPTION,
      ...CLUSTER_OPTIONS,
    }),
  handler: async ({ output, ...options }) => {
    const { doctor } = await import('../../doctor/doctor.ts');
    const { harmless, terminalOf, wrap } = await import('../../terminal/terminal.ts');
    const { valueWriter } = await import('../../output/value-output.ts');
    const terminal = terminalOf(process.stdout);
    const write = output === 'table' ? null : await valueWriter(output);
    const colours = { good: 'green', doubtful: 'yellow', bad: 'red', unknown: 'dim' } as const;
    const indent = ' '.repeat(MARK_WIDTH + NAME_WIDTH + 2 * GAP.length);
    const width = Math.max(30, terminal.columns - 1 - indent.length);
    for await (const finding of doctor(options)) {
      const { name, state, text, remedy } = finding;
      if (state === 'bad') {
        process.exitCode = 3;
      }
      if (write !== null) {
        write(finding);
        continue;
      }
      const mark = terminal.paint(colours[state], MARKS[state].padEnd(MARK_WIDTH));
      const [first = '', ...more] = [...wrap(harmless(text), width, 20), ...wrap(harmless(remedy), width, 20)];
      process.stdout.write(
        `${[`${mark}${GAP}${name.padEnd(NAME_WIDTH)}${GAP}${first}`, ...more.map((line) => `${indent}${line}`)].join('\n')}\n`,
      );
    }
  },
};
