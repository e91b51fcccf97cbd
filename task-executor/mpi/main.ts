import { readFileSync } from 'node:fs';
import { messageOf } from '../../platform/errors.ts';
import { TASK_ENVIRONMENT, type TaskContext } from '../../training/process/task-context.ts';
import { runAgent } from './agent.ts';
import { runLauncher } from './launcher.ts';
import type { LaunchPlan } from './prepare-mpi.ts';
import { runRemoteShell } from './remote-shell.ts';

/*
 * The programs of framework mpi:
 *
 *   mpi.mjs launch PLAN         the task with rank 0: runs the user's command, which contains mpirun
 *   mpi.mjs agent               every other task with a rank: runs the daemons of mpirun
 *   mpi.mjs shell NODE COMMAND  what mpirun runs instead of ssh
 */

async function main([mode, ...words]: readonly string[]): Promise<number> {
  const task = JSON.parse(readFileSync(process.env[TASK_ENVIRONMENT.taskFile] ?? '', 'utf8')) as TaskContext;
  if (mode === 'agent') {
    return await runAgent(task);
  }
  if (mode === 'shell') {
    return await runRemoteShell(task, words);
  }
  const { command, environment } = JSON.parse(readFileSync(words[0] ?? '', 'utf8')) as LaunchPlan;
  return await runLauncher(task, command, environment);
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error(messageOf(error));
  process.exit(255);
}
