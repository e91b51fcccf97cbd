import { defineCommand } from '../../command/command.ts';
import { CLUSTER_OPTIONS, JOB, TASK } from '../shared-options.ts';
import { noticeWriter, runSession } from './run-session.ts';

export const shellCommand = defineCommand({
  command: 'shell <job> <task>',
  describe: 'Open a shell in a running task',
  positionals: { job: JOB, task: TASK },
  options: { ...CLUSTER_OPTIONS },
  epilogue:
    "The shell runs with the working directory and environment of the task's program. " +
    'Without a terminal, the shell reads commands from standard input.',
  handler: async ({ job, task, ...cluster }) => {
    const { openShell } = await import('../../../sessions/open-shell.ts');
    const { stdin: input, stdout: output, stderr: errors, env } = process;
    const terminal = input.isTTY && output.isTTY ? { input, output, type: env.TERM ?? '' } : null;
    const onNotice = await noticeWriter();
    await runSession(job, cluster, (job, signal) => openShell(job, task, { input, output, errors, terminal, signal, onNotice }));
  },
});
