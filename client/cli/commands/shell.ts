import type { Argv, CommandModule } from 'yargs';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, TASK } from './shared-options.ts';

interface ShellArguments extends ClusterArguments {
  readonly application: string;
  readonly task: string;
}

export const shellCommand: CommandModule<object, ShellArguments> = {
  command: 'shell <application> <task>',
  describe: 'Open a shell in a running task',
  builder: (yargs): Argv<ShellArguments> =>
    yargs
      .positional('application', APPLICATION_ID)
      .positional('task', TASK)
      .options(CLUSTER_OPTIONS)
      .epilogue(
        "The shell runs in the working directory and with the environment of the task's program. " +
          'Without a terminal, it reads commands from standard input.',
      ),
  handler: async ({ application, task, ...cluster }) => {
    const { connectJob } = await import('../../connections/connect-job.ts');
    const { openShell } = await import('../../sessions/open-shell.ts');
    const { INTERRUPTED } = await import('../../terminal/interrupts.ts');
    const { terminalOf } = await import('../../terminal/terminal.ts');
    const { untilSignal } = await import('../../terminal/until-signal.ts');
    const connection = await connectJob(application, cluster);
    const stop = new AbortController();
    void untilSignal().then(() => stop.abort());
    const { stdin: input, stdout: output, stderr: errors, env } = process;
    const terminal = input.isTTY && output.isTTY ? { input, output, type: env.TERM ?? '' } : null;
    const onNotice = (notice: string): void => void errors.write(`${terminalOf(errors).paint('yellow', notice)}\n`);
    try {
      process.exitCode = await openShell(connection, task, { input, output, errors, terminal, signal: stop.signal, onNotice });
    } catch (error) {
      if (!stop.signal.aborted) {
        throw error;
      }
      process.exitCode = INTERRUPTED;
    } finally {
      connection.close();
    }
  },
};
