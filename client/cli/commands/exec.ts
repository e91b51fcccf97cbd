import type { Argv, CommandModule } from 'yargs';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, TASK } from './shared-options.ts';

interface ExecArguments extends ClusterArguments {
  readonly application: string;
  readonly task: string;
  readonly command?: readonly string[] | undefined;
  /** Words after two dashes. */
  readonly '--'?: readonly string[] | undefined;
}

export const execCommand: CommandModule<object, ExecArguments> = {
  command: 'exec <application> <task> [command..]',
  describe: 'Run a command in a running task: tony-ts exec APPLICATION worker:0 -- nvidia-smi',
  builder: (yargs): Argv<ExecArguments> =>
    yargs
      .positional('application', APPLICATION_ID)
      .positional('task', TASK)
      .positional('command', { type: 'string', array: true, describe: 'Program and arguments, after two dashes' })
      .options(CLUSTER_OPTIONS)
      .epilogue(
        "The command runs in the working directory and with the environment of the task's program. It reads this command's standard input. " +
          'The exit code is that of the command. The command ends when the program of the task ends, and on Ctrl-C.',
      ),
  handler: async ({ application, task, command = [], '--': rest = [], ...cluster }) => {
    const { connectJob } = await import('../../connections/connect-job.ts');
    const { execInTask } = await import('../../sessions/exec.ts');
    const { INTERRUPTED } = await import('../../terminal/interrupts.ts');
    const { untilSignal } = await import('../../terminal/until-signal.ts');
    const connection = await connectJob(application, cluster);
    const stop = new AbortController();
    void untilSignal().then(() => stop.abort());
    const { stdin: input, stdout: output, stderr: errors } = process;
    try {
      process.exitCode = await execInTask(connection, task, [...command, ...rest], { input, output, errors, signal: stop.signal });
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
