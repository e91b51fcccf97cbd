import { apiObject } from '../../../../conf/status/api-object.ts';
import type { HistoryEntry } from '../../../../conf/status/status.ts';
import { closing } from '../../../../platform/async/closing.ts';
import type { OutputFormat } from '../../../output/lines/value-output.ts';
import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, OUTPUT_OPTION } from '../shared-options.ts';

export const eventsCommand = defineCommand({
  command: 'events <job>',
  describe: "Show a job's events in order",
  positionals: { job: JOB },
  options: {
    follow: { alias: 'f', type: 'boolean', default: false, describe: 'Continue until the job ends' },
    type: {
      type: 'string',
      array: true,
      describe: 'Only events of these types, e.g. task-failed; task selects all types that begin with task-',
    },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  handler: async ({ job, follow, type = [], output, ...cluster }) => {
    const { connectNamed } = await import('../job-named.ts');
    const { jobEvents } = await import('../../../connections/operations/recorded-events.ts');
    const { printable, terminalOf } = await import('../../../terminal/terminal.ts');
    const write = output === 'table' ? await lineWriter() : await eventWriter(output);
    await closing(await connectNamed(job, cluster), async (connection) => {
      const types = type.flatMap((each) => each.split(',')).filter((each) => each !== '');
      const terminal = terminalOf(process.stderr);
      const onNotice = (message: string) => void process.stderr.write(`${terminal.paint('yellow', printable(message))}\n`);
      let shown = 0;
      for await (const entry of jobEvents(connection, { follow, types, onNotice })) {
        write(entry);
        shown++;
      }
      if (shown === 0) {
        onNotice(types.length === 0 ? 'The job has no events yet.' : `The job has no events of type ${types.join(' or ')}.`);
      }
    });
  },
});

type EventWriter = (entry: HistoryEntry) => void;

async function eventWriter(output: Exclude<OutputFormat, 'table'>): Promise<EventWriter> {
  const { valueWriter } = await import('../../../output/lines/value-output.ts');
  const write = await valueWriter(output);
  return (entry) => write(apiObject('JobEvent', entry));
}

async function lineWriter(): Promise<EventWriter> {
  const { eventLines } = await import('../../../output/lines/event-lines.ts');
  const { printable, terminalOf } = await import('../../../terminal/terminal.ts');
  const terminal = terminalOf(process.stdout);
  return (entry) =>
    void process.stdout.write(
      eventLines(entry, terminal)
        .map((line) => `${printable(line)}\n`)
        .join(''),
    );
}
