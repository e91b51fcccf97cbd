import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { TASK_ENVIRONMENT } from '../../../../contract/process/task-environment.ts';
import { messageOf } from '../../../../platform/errors.ts';
import { runAgent } from '../../agents/programs/agent.ts';
import { exitCodeOf, startCommand } from '../../agents/programs/shell-command.ts';
import { withAgents } from '../../agents/programs/with-agents.ts';
import type { LaunchPlan } from '../prepare-mpi.ts';
import { runRemoteShell } from './remote-shell.ts';

/*
 * The programs of framework mpi. They replace ssh, which mpirun uses to start one daemon on each other node:
 *
 *   task with rank 0                                          each other task with a rank
 *   mpi.mjs launch PLAN ---- join, end (with-agents.ts) ----> mpi.mjs agent (agent.ts)
 *     the user's command                                        |
 *       mpirun                                                  |
 *         mpi.mjs shell NODE COMMAND -- run (remote-shell.ts) ->+
 *           exits like the daemon                               the daemon of mpirun
 *                                                                 MPI processes
 *
 * Each arrow is an encrypted connection (connect-agent.ts, messages.ts). The launcher's connection lasts as long as the user's command. If
 * it closes without `end`, the agent reports that rank 0 is lost. prepare-mpi.ts writes the files that make mpirun use `shell`.
 */

/** Maximum time in ms to wait for mpirun's daemons to exit after mpirun has exited. */
const REST_MS = 5_000;

async function main([mode, ...words]: readonly string[]): Promise<number> {
  const task = JSON.parse(readFileSync(process.env[TASK_ENVIRONMENT.taskFile] ?? '', 'utf8')) as TaskContext;
  if (mode === 'agent') {
    return await runAgent(task, { restMs: REST_MS, failsWithCommands: false });
  }
  if (mode === 'shell') {
    return await runRemoteShell(task, words);
  }
  const plan = JSON.parse(readFileSync(words[0] ?? '', 'utf8')) as LaunchPlan;
  return await withAgents(task, () => launch(plan));
}

/** Runs the user's command. Returns its exit code. */
function launch({ command, environment, bin }: LaunchPlan): Promise<number> {
  const PATH = [bin, process.env.PATH || '/usr/local/bin:/usr/bin:/bin'].join(path.delimiter);
  return exitCodeOf(startCommand(command, { ...process.env, ...environment, PATH, TONY_MPI_FOLDER: process.cwd() }));
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error(messageOf(error));
  process.exit(255);
}
