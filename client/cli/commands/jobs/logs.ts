import { once } from 'node:events';
import { apiObject } from '../../../../conf/status/api-object.ts';
import { parseTask } from '../../../sessions/parse-task.ts';
import { defineCommand, wholeNumber } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, OUTPUT_OPTION } from '../shared-options.ts';

/** Checks the name of a role or task. */
function logSource(text: string): void {
  if (text.includes(':')) {
    parseTask(text);
  }
}

export const logsCommand = defineCommand({
  command: 'logs <job> [task]',
  describe: "Show the output of a job's programs",
  positionals: {
    job: JOB,
    task: { type: 'string', describe: 'ROLE, ROLE:INDEX or master; all tasks by default', parse: logSource },
  },
  options: {
    tail: { ...wholeNumber(1, 1_000_000), alias: 'n', describe: 'Show only this many lines from the end of each file' },
    follow: { alias: 'f', type: 'boolean', default: false, describe: 'Continue until the job ends; Ctrl-C stops following' },
    executor: { type: 'boolean', default: false, describe: "Show the executor's own log instead of the program's output" },
    ...OUTPUT_OPTION,
    ...CLUSTER_OPTIONS,
  },
  epilogue:
    'With -f, the lines of all tasks appear as the programs write them. Without -f, the command prints one container after another.\n' +
    "tony-ts logs writes the programs' stderr to its own stderr. The exit code after Ctrl-C is 130.",
  handler: async ({ job, task, tail, follow, executor, output, ...cluster }) => {
    const { connectNamed } = await import('../job-named.ts');
    const { INTERRUPTED } = await import('../../../terminal/interrupts.ts');
    const { jobLogs } = await import('../../../connections/operations/job-logs.ts');
    const { LineOutput } = await import('../../../terminal/line-output.ts');
    const { LogLines } = await import('../../../output/lines/log-lines.ts');
    const { terminalOf, harmless } = await import('../../../terminal/terminal.ts');
    const { untilSignal } = await import('../../../terminal/until-signal.ts');
    const { valueWriter } = await import('../../../output/lines/value-output.ts');
    const [out, err] = [terminalOf(process.stdout), terminalOf(process.stderr)];
    const write = output === 'table' ? null : await valueWriter(output);
    const lines = new LogLines({ prefixed: task === undefined || !(task.includes(':') || task === 'master') });
    const text = new LineOutput();
    const connection = await connectNamed(job, cluster);
    const interrupted = new AbortController();
    void untilSignal().then(() => interrupted.abort());
    try {
      const logs = jobLogs(connection, {
        task,
        tail,
        follow,
        files: executor ? ['tony.log'] : ['stdout', 'stderr'],
        signal: interrupted.signal,
        onNotice: (notice) => void process.stderr.write(`${err.paint('yellow', harmless(notice))}\n`),
        onTasks: (tasks) => lines.expect(tasks),
      });
      for await (const line of logs) {
        if (write === null) {
          const isError = line.file === 'stderr';
          await text.write(isError ? process.stderr : process.stdout, lines.line(line, isError ? err : out));
          continue;
        }
        write(apiObject('LogLine', line));
        if (process.stdout.writableNeedDrain) {
          await once(process.stdout, 'drain');
        }
      }
    } catch (error) {
      if (!interrupted.signal.aborted) {
        throw error;
      }
      process.exitCode = INTERRUPTED;
    } finally {
      await text.flush();
      connection.close();
    }
  },
});
