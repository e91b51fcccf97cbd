import type { Argv } from 'yargs';
import { defineCommand } from '../define-command.ts';
import { APPLICATION_ID, CLUSTER_OPTIONS, type ClusterArguments, TASK } from '../shared-options.ts';
import { runSession } from './run-session.ts';

interface ExecArguments extends ClusterArguments {
  readonly application: string;
  readonly task: string;
  readonly command?: readonly string[] | undefined;
  /** Words after `--`. */
  readonly '--'?: readonly string[] | undefined;
}

export const execCommand = defineCommand<ExecArguments>({
  command: 'exec <application> <task> [command..]',
  describe: 'Run a command in a running task: tony-ts exec APPLICATION worker:0 -- nvidia-smi',
  builder: (yargs): Argv<ExecArguments> =>
    yargs
      .positional('application', APPLICATION_ID)
      .positional('task', TASK)
      .positional('command', { type: 'string', array: true, describe: 'Program and arguments, after --' })
      .options(CLUSTER_OPTIONS)
      .epilogue(
        "The command runs with the working directory and environment of the task's program, and reads the standard input of tony-ts exec. " +
          "tony-ts exec returns the command's exit code. The command ends when the task's program ends, or when you press Ctrl-C.",
      ),
  handler: async ({ application, task, command = [], '--': rest = [], ...cluster }) => {
    const { execInTask } = await import('../../../sessions/exec.ts');
    const { stdin: input, stdout: output, stderr: errors } = process;
    const words = [...command, ...rest];
    await runSession(application, cluster, (job, signal) => execInTask(job, task, words, { input, output, errors, signal }));
  },
});
