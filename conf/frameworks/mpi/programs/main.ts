import { readFileSync } from 'node:fs';
import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { TASK_ENVIRONMENT } from '../../../../contract/process/task-environment.ts';
import { messageOf } from '../../../../platform/errors.ts';
import type { LaunchPlan } from '../prepare-mpi.ts';
import { runAgent } from './agent.ts';
import { runLauncher } from './launcher.ts';
import { runRemoteShell } from './remote-shell.ts';

/*
 * The programs of framework mpi. They replace ssh, which mpirun uses to start one daemon on each other node:
 *
 *   task with rank 0                                          each other task with a rank
 *   mpi.mjs launch PLAN ---- join, end (launcher.ts) -------> mpi.mjs agent (agent.ts)
 *     the user's command                                        |
 *       mpirun                                                  |
 *         mpi.mjs shell NODE COMMAND -- run (remote-shell.ts) ->+
 *           exits like the daemon                               the daemon of mpirun
 *                                                                 MPI processes
 *
 * Each arrow is an encrypted connection (connect-agent.ts, messages.ts). The launcher's connection lasts as long as the user's command. If
 * it closes without `end`, the agent reports that rank 0 is lost. prepare-mpi.ts writes the files that make mpirun use `shell`.
 */

async function main([mode, ...words]: readonly string[]): Promise<number> {
  const task = JSON.parse(readFileSync(process.env[TASK_ENVIRONMENT.taskFile] ?? '', 'utf8')) as TaskContext;
  if (mode === 'agent') {
    return await runAgent(task);
  }
  if (mode === 'shell') {
    return await runRemoteShell(task, words);
  }
  const plan = JSON.parse(readFileSync(words[0] ?? '', 'utf8')) as LaunchPlan;
  return await runLauncher(task, plan);
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error(messageOf(error));
  process.exit(255);
}
