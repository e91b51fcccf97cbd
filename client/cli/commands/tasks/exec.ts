import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, TASK } from '../shared-options.ts';
import { runSession } from './run-session.ts';

export const execCommand = defineCommand({
  command: 'exec <job> <task> [command..]',
  describe: 'Run a command in a running task: tony-ts exec APPLICATION worker:0 -- nvidia-smi',
  positionals: {
    job: JOB,
    task: TASK,
    command: { type: 'string', array: true, describe: 'Program and arguments, after --' },
  },
  options: { ...CLUSTER_OPTIONS },
  epilogue:
    "The command runs with the working directory and environment of the task's program, and reads the standard input of tony-ts exec. " +
    "tony-ts exec returns the command's exit code. The command ends when the task's program ends, or when you press Ctrl-C.",
  handler: async ({ job, task, command: words = [], ...cluster }) => {
    const { checkCommand, execInTask } = await import('../../../sessions/exec.ts');
    const { stdin: input, stdout: output, stderr: errors } = process;
    checkCommand(words, task);
    await runSession(job, cluster, (job, signal) => execInTask(job, task, words, { input, output, errors, signal }));
  },
});
